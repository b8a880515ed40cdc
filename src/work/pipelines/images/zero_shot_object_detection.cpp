// SPDX-License-Identifier: Apache-2.0
// Where in a picture is what texts name (Minderer et al., 2022)?
#include <algorithm>
#include <cmath>

#include "base/threads/prefetcher.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/box_in_picture.h"
#include "work/pipelines/images/label_tokens.h"

namespace transom {
namespace {

class ZeroShotObjectDetection : public Pipeline {
 public:
  ZeroShotObjectDetection(ImageModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const double threshold = number_option(options, "threshold").value_or(0.1);
    Prefetcher<ImageModel::Prepared> images(static_cast<int64_t>(inputs.size()),
                                            [&](int64_t i) { return model_.prepared(inputs[static_cast<size_t>(i)]); });
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      std::vector<DetectedObject> objects =
          objects_of(images.next(), candidate_labels(image_input(input).candidate_labels, options), threshold);
      // Transformers takes 0 for all, too.
      if (const int64_t most = is_given(options, "top_k") ? int_option(options, "top_k", 0) : 0; most != 0)
        objects.resize(classes_wanted(options, objects.size(), std::nullopt));
      results.emplace_back(std::move(objects));
    }
    return results;
  }

 private:
  std::vector<DetectedObject> objects_of(const ImageModel::Prepared& image, const std::vector<std::string>& labels,
                                         double threshold) const {
    const NoGradient inference;
    NamedTensors inputs = label_tokens(tokenizer_, labels, 0, Side::kRight);  // read as each alone
    inputs.set("pixel_values", pixel_values({&image.pixels, 1}));
    const NamedTensors outputs = model_.model->forward(inputs);
    const std::vector<float> logits = outputs.at("logits").to_vector<float>(),  // [1, places, labels]
        boxes = outputs.at("pred_boxes").to_vector<float>();                    // [1, places, 4]
    std::vector<DetectedObject> found;
    std::vector<double> scores;
    ImageModel::Extents frame = image.picture;
    if (model_.processor.frames_in_square()) frame.height = frame.width = std::max(frame.height, frame.width);
    for (size_t label = 0; label < labels.size(); ++label)
      for (size_t place = 0; 4 * place < boxes.size(); ++place) {
        const double score = 1 / (1 + std::exp(-static_cast<double>(logits[place * labels.size() + label])));
        if (!(score > threshold)) continue;
        found.push_back({labels[label], score, box_in_picture(std::span(boxes).subspan(4 * place, 4), frame)});
        scores.push_back(score);
      }
    std::vector<DetectedObject> sorted;
    for (const size_t i : falling_order(scores)) sorted.push_back(std::move(found[i]));
    return sorted;
  }

  ImageModel model_;
  Tokenizer tokenizer_;
};

TaskParameters zero_shot_object_detection_parameters() {
  using Type = TaskParameter::Type;
  return {{"candidate_labels", Type::kTexts, "what to look for", "", {}, true},
          {"threshold", Type::kNumber, "the score that an object needs", "0.1"},
          {"top_k", Type::kInteger, "how many objects, the most certain ones", "all"},
          {"timeout", Type::kNumber, "refused: pictures are not downloaded"}};
}

std::unique_ptr<Pipeline> load_zero_shot_object_detection(const std::string& directory, const LoadOptions& options,
                                                          const std::string& /*task*/) {
  return std::make_unique<ZeroShotObjectDetection>(ImageModel::load(directory, options),
                                                   Tokenizer::from_pretrained(directory));
}

constexpr TaskRecord kZeroShotObjectDetection{
    .name = "zero-shot-object-detection",
    .example = "street.png --candidate_labels \"a cat, a red car\" --output boxes.png",
    .input = InputKind::kImage,
    .result = ResultKind::kObjects,
    .parameters = zero_shot_object_detection_parameters,
    .load = load_zero_shot_object_detection};
const RegisterTask kRegisterZeroShotObjectDetection(kZeroShotObjectDetection);

}  // namespace
}  // namespace transom
