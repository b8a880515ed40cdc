// SPDX-License-Identifier: Apache-2.0
// Zero-shot classification of images (Radford et al., 2021): which of the labels' texts is most like the image?
#include <algorithm>

#include "base/threads/prefetcher.h"
#include "transom/tokenizer.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class ZeroShotImageClassification : public Pipeline {
 public:
  ZeroShotImageClassification(ImageModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
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
    NamedTensors inputs = tokens_of(texts);
    inputs.set("pixel_values", pixel_values({&image, 1}));
    const std::vector<double> scores =
        softmax_of(model_.model->forward(inputs).at("logits_per_image").to_vector<float>());
    std::vector<ClassScore> classes;
    for (const size_t i : falling_order(scores)) classes.push_back({labels[i], scores[i]});
    return classes;
  }

  // input_ids and attention_mask [texts, T], padded to the longest.
  NamedTensors tokens_of(const std::vector<std::string>& texts) const {
    const std::vector<Encoding> encodings = tokenizer_.encode_batch(texts, {}, {.padding = Padding::kLongest});
    std::vector<int64_t> ids, mask;
    for (const Encoding& encoding : encodings) {
      ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
      mask.insert(mask.end(), encoding.attention_mask.begin(), encoding.attention_mask.end());
    }
    const Shape shape{static_cast<int64_t>(encodings.size()), static_cast<int64_t>(encodings[0].size())};
    return {{"input_ids", Tensor::from(ids, shape)}, {"attention_mask", Tensor::from(mask, shape)}};
  }

  ImageModel model_;
  Tokenizer tokenizer_;
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
