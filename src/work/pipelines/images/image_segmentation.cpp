// SPDX-License-Identifier: Apache-2.0
// Of which class each pixel of a picture is.
#include <algorithm>

#include "base/error.h"
#include "work/pipelines/images/enlarged_map.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

// White where a map of numbers has this one.
Picture mask_of(const std::vector<int32_t>& numbers, int32_t number, ImageModel::Extents extents) {
  std::vector<uint8_t> mask(numbers.size());
  std::transform(numbers.begin(), numbers.end(), mask.begin(),
                 [&](int32_t each) { return static_cast<uint8_t>(each == number ? 255 : 0); });
  return {extents.width, extents.height, 1, std::move(mask)};
}

class ImageSegmentation : public Pipeline {
 public:
  explicit ImageSegmentation(ImageModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const std::string subtask = text_option(options, "subtask", "semantic");
    if (subtask != "semantic")
      fail(ErrorKind::kUsage, "subtask: {} does {} segmentation alone, found {}", model_.model->architecture(),
           "semantic", quoted(subtask));
    refuse_without_effect(options, {"threshold", "mask_threshold", "overlap_mask_area_threshold"},
                          "on semantic segmentation, where every pixel has a class");
    std::vector<TaskResult> results;
    for (const ImageModel::Outputs& each : model_.outputs(inputs, {"logits"}, batch_size_of(options)))
      results.emplace_back(classes_of(each));
    return results;
  }

 private:
  // The classes that some pixel has, in the order of their numbers.
  std::vector<Segment> classes_of(const ImageModel::Outputs& outputs) const {
    const FeatureArray& logits = outputs.values[0];
    const std::vector<int32_t> classes =
        largest_maps(EnlargedMaps(logits.values, logits.shape.at(1), logits.shape.at(2), logits.shape.at(3),
                                  outputs.picture.height, outputs.picture.width));
    std::vector<bool> seen(static_cast<size_t>(logits.shape[1]), false);
    for (const int32_t number : classes) seen[static_cast<size_t>(number)] = true;
    std::vector<Segment> segments;
    for (size_t number = 0; number < seen.size(); ++number) {
      if (!seen[number]) continue;
      if (number >= labels_.size())
        fail("{}: expected a name for class {} in id2label, which has {}", model_.model->config().where(), number,
             labels_.size());
      segments.push_back(
          {labels_[number], std::nullopt, mask_of(classes, static_cast<int32_t>(number), outputs.picture)});
    }
    return segments;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

TaskParameters image_segmentation_parameters() {
  using Type = TaskParameter::Type;
  return {{.name = "subtask",
           .help = "what segments are: classes, or objects by themselves",
           .otherwise = "what the model does",
           .choices = {"semantic", "instance", "panoptic"}},
          {"threshold", Type::kNumber, "the score that an object needs", "0.9"},
          {"mask_threshold", Type::kNumber, "the chance that a pixel of an object needs", "0.5"},
          {"overlap_mask_area_threshold", Type::kNumber, "the part of an object that has to be left by those above it",
           "0.5"},
          {"timeout", Type::kNumber, "refused: pictures are not downloaded"}};
}

constexpr TaskRecord kImageSegmentation{.name = "image-segmentation",
                                        .example = "street.png --output masks.png",
                                        .input = InputKind::kImage,
                                        .result = ResultKind::kSegments,
                                        .parameters = image_segmentation_parameters,
                                        .load = load_image_task<ImageSegmentation>};
const RegisterTask kRegisterImageSegmentation(kImageSegmentation);

}  // namespace
}  // namespace transom
