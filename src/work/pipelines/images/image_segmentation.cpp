// SPDX-License-Identifier: Apache-2.0
// Of which class or of which object each pixel of a picture is.
#include <algorithm>

#include "base/error.h"
#include "models/records.h"
#include "work/pipelines/images/enlarged_map.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/images/masks/query_masks.h"

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
    return *head_of(*model_.model).labels == HeadLabels::kMasks ? by_queries(inputs, options)
                                                                : by_classes(inputs, options);
  }

 private:
  // Of models that tell classes of pixels.
  std::vector<TaskResult> by_classes(const std::vector<TaskInput>& inputs, const TaskOptions& options) const {
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

  // Of models whose queries tell a class and a mask each. They do all subtasks, panoptic where nobody asks for another.
  std::vector<TaskResult> by_queries(const std::vector<TaskInput>& inputs, const TaskOptions& options) const {
    const std::string subtask = text_option(options, "subtask", "panoptic");
    const QueryThresholds thresholds{.score = number_option(options, "threshold").value_or(0.9),
                                     .pixel = number_option(options, "mask_threshold").value_or(0.5),
                                     .left_of_it = number_option(options, "overlap_mask_area_threshold").value_or(0.5)};
    if (subtask == "semantic")
      refuse_without_effect(options, {"threshold", "mask_threshold", "overlap_mask_area_threshold"},
                            "on semantic segmentation, where every pixel has a class");
    if (subtask == "instance")
      refuse_without_effect(options, {"mask_threshold", "overlap_mask_area_threshold"},
                            "on instance segmentation, where objects may overlap");
    std::vector<TaskResult> results;
    const std::vector<std::string> names = {"class_queries_logits", "masks_queries_logits"};
    for (const ImageModel::Outputs& each : model_.outputs(inputs, names, batch_size_of(options))) {
      const FeatureArray &logits = each.values[0], &masks = each.values[1];
      const QueryMasks found{.logits = logits.values,
                             .masks = masks.values,
                             .queries = logits.shape.at(1),
                             .classes = logits.shape.at(2) - 1,
                             .h = masks.shape.at(2),
                             .w = masks.shape.at(3),
                             .height = each.picture.height,
                             .width = each.picture.width};
      std::vector<Segment> segments;
      for (QuerySegment& segment : subtask == "semantic"   ? semantic_segments(found)
                                   : subtask == "instance" ? instance_segments(found, thresholds.score)
                                                           : panoptic_segments(found, thresholds))
        segments.push_back({label_of(static_cast<size_t>(segment.label)), segment.score, std::move(segment.mask)});
      results.emplace_back(std::move(segments));
    }
    return results;
  }

  const std::string& label_of(size_t number) const {
    if (number >= labels_.size())
      fail("{}: expected a name for class {} in id2label, which has {}", model_.model->config().where(), number,
           labels_.size());
    return labels_[number];
  }

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
      segments.push_back(
          {label_of(number), std::nullopt, mask_of(classes, static_cast<int32_t>(number), outputs.picture)});
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
