// SPDX-License-Identifier: Apache-2.0
// Zero-shot classification of images (Radford et al., 2021): which of the labels' texts is most like the image? Of
// models that judge each pair by itself (Zhai et al., 2023): how likely is it that the text belongs to the image?
#include <cmath>

#include "base/threads/prefetcher.h"
#include "models/records.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/images/label_tokens.h"

namespace transom {
namespace {

class ZeroShotImageClassification : public Pipeline {
 public:
  ZeroShotImageClassification(ImageModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
    const Family* family = find_family(model_.model->config());
    if (family) text_length_ = family->processors.text_length;
  }
  Model* model() const override { return model_.model.get(); }

  // By falling score.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    Prefetcher<ImageProcessor::Pixels> images(static_cast<int64_t>(inputs.size()),
                                              [&](int64_t i) { return model_.pixels(inputs[static_cast<size_t>(i)]); });
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs)
      results.emplace_back(
          labelled(images.next(), candidate_labels(image_input(input).candidate_labels, options), options));
    return results;
  }

 private:
  std::vector<ClassScore> labelled(const ImageProcessor::Pixels& image, const std::vector<std::string>& labels,
                                   const TaskOptions& options) const {
    const NoGradient inference;
    const std::string hypothesis = text_option(options, "hypothesis_template", "This is a photo of {}.");
    std::vector<std::string> texts;
    for (const std::string& label : labels) texts.push_back(hypothesis_of(hypothesis, label));
    NamedTensors inputs = label_tokens(tokenizer_, texts, text_length_);
    const NamedTensors of_image = inputs_of_images({&image, 1});
    for (const auto& [name, tensor] : of_image.items()) inputs.set(name, tensor);
    const std::vector<float> logits = model_.model->forward(inputs).at("logits_per_image").to_vector<float>();
    const std::vector<double> scores =
        head_of(*model_.model).judges_pairs_apart ? sigmoids_of(logits) : softmax_of(logits);
    std::vector<ClassScore> classes;
    for (const size_t i : falling_order(scores)) classes.push_back({labels[i], scores[i]});
    return classes;
  }

  static std::vector<double> sigmoids_of(const std::vector<float>& logits) {
    std::vector<double> scores;
    for (const float logit : logits) scores.push_back(1 / (1 + std::exp(-static_cast<double>(logit))));
    return scores;
  }

  ImageModel model_;
  Tokenizer tokenizer_;
  int64_t text_length_ = 0;
};

TaskParameters zero_shot_image_classification_parameters() {
  return {
      {"candidate_labels", TaskParameter::Type::kTexts, "the classes to choose from", "", {}, true},
      {"hypothesis_template", TaskParameter::Type::kText, "sentence that a label is put into, in place of {}",
       "This is a photo of {}."},
  };
}

std::unique_ptr<Pipeline> load_zero_shot_image_classification(const std::string& directory, const LoadOptions& options,
                                                              const std::string& /*task*/) {
  return std::make_unique<ZeroShotImageClassification>(ImageModel::load(directory, options),
                                                       Tokenizer::from_pretrained(directory));
}

constexpr TaskRecord kZeroShotImageClassification{.name = "zero-shot-image-classification",
                                                  .example = "cat.png --candidate_labels \"a cat, a dog\"",
                                                  .input = InputKind::kImage,
                                                  .result = ResultKind::kClasses,
                                                  .json = {.classes = JsonForm::Classes::kScoreFirst},
                                                  .parameters = zero_shot_image_classification_parameters,
                                                  .load = load_zero_shot_image_classification};
const RegisterTask kRegisterZeroShotImageClassification(kZeroShotImageClassification);

}  // namespace
}  // namespace transom
