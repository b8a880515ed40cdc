// SPDX-License-Identifier: Apache-2.0
// Which objects are in a picture, and where.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/box_in_picture.h"
#include "work/pipelines/images/graph_detection.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

// Of logits, with the last class for "nothing": the best class of the others and its chance.
struct BestClass {
  explicit BestClass(std::span<const float> logits) {
    const float most = *std::max_element(logits.begin(), logits.end());
    float total = 0;
    for (const float logit : logits) total += std::exp(logit - most);
    const auto best = std::max_element(logits.begin(), logits.end() - 1);
    label = best - logits.begin();
    score = std::exp(*best - most) / total;
  }
  int64_t label = 0;
  float score = 0;
};

class ObjectDetection : public Pipeline {
 public:
  explicit ObjectDetection(ImageModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }
  TaskParameters parameters() const override { return parameters_of_all(); }

  static TaskParameters parameters_of_all() {
    return {{"threshold", TaskParameter::Type::kNumber, "the score that an object needs", "0.5"},
            {"timeout", TaskParameter::Type::kNumber, "refused: pictures are not downloaded"}};
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const double threshold = number_option(options, "threshold").value_or(0.5);
    std::vector<TaskResult> results;
    for (const ImageModel::Outputs& each : model_.outputs(inputs, {"logits", "pred_boxes"}, batch_size_of(options)))
      results.emplace_back(objects_of(each, threshold));
    return results;
  }

 private:
  // As post_process_object_detection() gives them: in the order of the queries; of detectors whose classes each have a
  // chance of their own by falling score, and an object may have several classes.
  std::vector<DetectedObject> objects_of(const ImageModel::Outputs& outputs, double threshold) const {
    const FeatureArray &logits = outputs.values[0], &boxes = outputs.values[1];
    const auto queries = static_cast<size_t>(logits.shape.at(1)), classes = static_cast<size_t>(logits.shape.at(2));
    if (classes != labels_.size() && classes != labels_.size() + 1)
      fail("{}: expected names of the classes in id2label, found {} for logits of {}", model_.model->config().where(),
           labels_.size(), classes);
    std::vector<DetectedObject> objects;
    const auto add = [&](size_t query, size_t label, float score) {
      if (static_cast<double>(score) > threshold)
        objects.push_back(
            {labels_[label], score, box_in_picture(std::span(boxes.values).subspan(4 * query, 4), outputs.picture)});
    };
    if (classes == labels_.size()) {
      const std::vector<double> values(logits.values.begin(), logits.values.end());
      std::vector<size_t> order = falling_order(values);
      order.resize(std::min(order.size(), queries));
      for (const size_t i : order) add(i / classes, i % classes, 1 / (1 + std::exp(-logits.values[i])));
      return objects;
    }
    for (size_t query = 0; query < queries; ++query) {
      const BestClass best(std::span(logits.values).subspan(query * classes, classes));
      add(query, static_cast<size_t>(best.label), best.score);
    }
    return objects;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

TaskParameters object_detection_parameters() {
  using Type = TaskParameter::Type;
  TaskParameters parameters = ObjectDetection::parameters_of_all();
  parameters.push_back(
      {"nms_threshold", Type::kNumber, "how much boxes of one object overlap; YOLO graphs alone", "0.45"});
  parameters.push_back(
      {"class_agnostic", Type::kFlag, "boxes of different classes count as one object; YOLO graphs alone", "false"});
  parameters.push_back({.name = "letterbox",
                        .help = "where a picture lies in its frame; YOLO graphs alone",
                        .otherwise = "as the kind is trained",
                        .choices = {"centre", "corner", "black_square"}});
  return parameters;
}

// A family's model, or a graph of the YOLO kind.
std::unique_ptr<Pipeline> load_object_detection(const std::string& directory, const LoadOptions& options,
                                                const std::string& task) {
  if (GraphModel::is_of(directory))
    if (GraphModel graph = GraphModel::load(directory, options); is_graph_detector(graph))
      return make_graph_detection(std::move(graph));
  return load_image_task<ObjectDetection>(directory, options, task);
}

constexpr TaskRecord kObjectDetection{.name = "object-detection",
                                      .example = "street.png --threshold 0.9 --output boxes.png",
                                      .input = InputKind::kImage,
                                      .result = ResultKind::kObjects,
                                      .parameters = object_detection_parameters,
                                      .load = load_object_detection};
const RegisterTask kRegisterObjectDetection(kObjectDetection);

}  // namespace
}  // namespace transom
