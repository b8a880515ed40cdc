// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/graph_detection.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "work/pipelines/images/box_suppression.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/images/letterbox.h"

namespace transom {
namespace {

constexpr size_t kMostBoxes = 300, kMostCandidates = 30000;
constexpr int64_t kLargestInput = 8192;
constexpr int64_t kStrides[] = {8, 16, 32};  // of the three maps of YOLOX

enum class Yolo { kV5, kV8, kX };

// What the file or config.json calls it; nothing where neither does.
std::optional<Yolo> kind_of(const GraphModel& model) {
  const std::string type = model.kind();
  for (const auto& [name, kind] : {std::pair("yolov5", Yolo::kV5), {"yolov8", Yolo::kV8}, {"yolox", Yolo::kX}})
    if (type == name) return kind;
  const auto& metadata = model.file().metadata;
  const auto task = metadata.find("task");
  if (task == metadata.end() || task->second != "detect" || !metadata.contains("names")) return std::nullopt;
  const auto description = metadata.find("description");
  const bool five = description != metadata.end() && description->second.find("YOLOv5") != std::string::npos;
  return five ? Yolo::kV5 : Yolo::kV8;
}

std::vector<std::string> labels_of(const GraphModel& model) {
  std::vector<std::string> labels;
  for (const auto& [number, name] : model.config().get_map("id2label")) {
    if (number != static_cast<int64_t>(labels.size()))
      fail("{}: id2label: expected a name for class {}", model.config().where(), labels.size());
    labels.push_back(name);
  }
  const auto names = model.file().metadata.find("names");
  if (labels.empty() && names != model.file().metadata.end())
    labels = labels_of_literal(names->second, model.where() + ": metadata names");
  if (labels.empty())
    fail("{}: expected the names of classes, id2label of config.json or names in the file's metadata", model.where());
  return labels;
}

// "[320, 320]" of a file's metadata.
int64_t number_in_list(const std::string& text, size_t place) {
  size_t begin = 0;
  for (size_t i = 0; i <= place; ++i) {
    begin = text.find_first_of("0123456789", begin);
    if (begin == text.npos) return -1;
    if (i < place) begin = text.find_first_not_of("0123456789", begin);
    if (begin == text.npos) return -1;
  }
  int64_t value = -1;
  std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return value;
}

class GraphDetection : public Pipeline {
 public:
  explicit GraphDetection(GraphModel model)
      : model_(std::move(model)), kind_(kind_of(model_).value_or(Yolo::kV8)), labels_(labels_of(model_)) {
    const onnx::ValueInfo& input = model_.only_input();
    if (input.shape && input.shape->size() != 4)
      fail("{}: input {}: expected pictures [1, 3, height, width]", model_.where(), quoted(input.name));
    height_ = extent_of(input, 0), width_ = extent_of(input, 1);
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const double threshold = number_option(options, "threshold").value_or(0.5);
    const double most_overlap = number_option(options, "nms_threshold").value_or(0.45);
    const bool all_labels = flag_option(options, "class_agnostic", false);
    const std::string frame = text_option(options, "letterbox", kind_ == Yolo::kX ? "corner" : "centre");
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const Image picture = image_of(image_input(input).source);
      const Letterbox box = in_frame(picture, width_, height_,
                                     frame == "corner"         ? LetterboxFrame::kCorner
                                     : frame == "black_square" ? LetterboxFrame::kBlackSquare
                                                               : LetterboxFrame::kCentre);
      std::vector<ScoredBox> candidates = candidates_of(outputs_of(box.image), threshold);
      for (ScoredBox& one : candidates) bring_back(one, box, picture);
      std::vector<DetectedObject> objects;
      for (const ScoredBox& one : without_overlaps(std::move(candidates), most_overlap, all_labels, kMostBoxes))
        objects.push_back({labels_[static_cast<size_t>(one.label)],
                           static_cast<double>(one.score),
                           {static_cast<int64_t>(one.left), static_cast<int64_t>(one.top),
                            static_cast<int64_t>(one.right), static_cast<int64_t>(one.bottom)}});
      results.emplace_back(std::move(objects));
    }
    return results;
  }

 private:
  // Of the declared input, else of the file's metadata, else of config.json.
  int64_t extent_of(const onnx::ValueInfo& input, size_t place) const {
    int64_t extent = GraphModel::extent(input, place + 2);
    const auto named = model_.file().metadata.find("imgsz");
    if (extent < 1 && named != model_.file().metadata.end()) extent = number_in_list(named->second, place);
    if (extent < 1) extent = model_.config().get_pair("image_size", 640)[place];
    if (extent < 1 || extent > kLargestInput)
      fail("{}: expected pictures of 1 to {} pixels a side, found {}", model_.where(), kLargestInput, extent);
    return extent;
  }

  FeatureArray outputs_of(const Image& frame) const {
    const auto pixels = static_cast<size_t>(width_ * height_);
    std::vector<float> values(3 * pixels);
    const bool raw = kind_ == Yolo::kX;  // blue, green, red from 0 to 255
    for (size_t i = 0; i < pixels; ++i)
      for (size_t c = 0; c < 3; ++c) {
        const auto value = static_cast<float>(frame.pixels[3 * i + (raw ? 2 - c : c)]);
        values[c * pixels + i] = raw ? value : value / 255.0f;
      }
    std::vector<FeatureArray> outputs =
        model_.run({{model_.only_input().name, Tensor::from(values, {1, 3, height_, width_})}});
    if (outputs.size() != 1 || outputs[0].shape.size() != 3 || outputs[0].shape[0] != 1)
      fail("{}: expected one output of boxes [1, ..., ...], found {} outputs", model_.where(), outputs.size());
    return std::move(outputs[0]);
  }

  // Boxes in the frame whose best class has a chance above the threshold.
  std::vector<ScoredBox> candidates_of(const FeatureArray& output, double threshold) const {
    const bool columns = kind_ == Yolo::kV8;  // [1, 4 + classes, boxes], else [1, boxes, 5 + classes]
    const auto classes = static_cast<int64_t>(labels_.size()), before = columns ? int64_t{4} : int64_t{5};
    const int64_t count = output.shape[columns ? 2 : 1], width = output.shape[columns ? 1 : 2];
    if (width != before + classes)
      fail("{}: expected {} numbers a box for {} classes, found {}", model_.where(), before + classes, classes, width);
    if (kind_ == Yolo::kX) expect_grid(count);
    std::vector<ScoredBox> boxes;
    for (int64_t i = 0; i < count; ++i) {
      const auto at = [&](int64_t j) {
        return output.values[static_cast<size_t>(columns ? j * count + i : i * width + j)];
      };
      ScoredBox box;
      box.score = -std::numeric_limits<float>::infinity();
      for (int64_t label = 0; label < classes; ++label)
        if (at(before + label) > box.score) box.score = at(before + label), box.label = label;
      if (!columns) box.score *= at(4);
      if (!(static_cast<double>(box.score) > threshold)) continue;
      float x = at(0), y = at(1), w = at(2), h = at(3);
      if (kind_ == Yolo::kX) decode(i, x, y, w, h);
      if (!std::isfinite(x + y + w + h)) continue;
      box.left = x - w / 2, box.right = x + w / 2, box.top = y - h / 2, box.bottom = y + h / 2;
      boxes.push_back(box);
    }
    if (boxes.size() > kMostCandidates) {
      std::nth_element(boxes.begin(), boxes.begin() + kMostCandidates, boxes.end(),
                       [](const ScoredBox& a, const ScoredBox& b) { return a.score > b.score; });
      boxes.resize(kMostCandidates);
    }
    return boxes;
  }

  void expect_grid(int64_t count) const {
    int64_t places = 0;
    for (const int64_t stride : kStrides) places += (width_ / stride) * (height_ / stride);
    if (count != places)
      fail("{}: expected {} boxes of maps with the strides 8, 16 and 32, found {}", model_.where(), places, count);
  }
  // YOLOX gives places within the cell of a map, and logarithms of extents.
  void decode(int64_t place, float& x, float& y, float& w, float& h) const {
    for (const int64_t stride : kStrides) {
      const int64_t columns = width_ / stride, cells = columns * (height_ / stride);
      if (place >= cells) {
        place -= cells;
        continue;
      }
      const auto step = static_cast<float>(stride);
      x = (x + static_cast<float>(place % columns)) * step, y = (y + static_cast<float>(place / columns)) * step;
      w = std::exp(w) * step, h = std::exp(h) * step;
      return;
    }
  }

  static void bring_back(ScoredBox& box, const Letterbox& frame, const Image& picture) {
    const auto x = [&](float value) {
      return static_cast<float>(
          std::clamp(frame.x_in_picture(static_cast<double>(value)), 0.0, static_cast<double>(picture.width)));
    };
    const auto y = [&](float value) {
      return static_cast<float>(
          std::clamp(frame.y_in_picture(static_cast<double>(value)), 0.0, static_cast<double>(picture.height)));
    };
    box.left = x(box.left), box.right = x(box.right), box.top = y(box.top), box.bottom = y(box.bottom);
  }

  GraphModel model_;
  Yolo kind_;
  std::vector<std::string> labels_;
  int64_t width_ = 0, height_ = 0;
};

}  // namespace

bool is_graph_detector(const GraphModel& model) { return kind_of(model).has_value(); }

std::unique_ptr<Pipeline> make_graph_detection(GraphModel model) {
  return std::make_unique<GraphDetection>(std::move(model));
}

std::vector<std::string> labels_of_literal(std::string_view text, const std::string& where) {
  std::vector<std::string> labels;
  size_t place = 0;
  const auto skip = [&](std::string_view among) {
    while (place < text.size() && among.find(text[place]) != among.npos) ++place;
  };
  skip(" {");
  while (place < text.size() && text[place] != '}') {
    int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data() + place, text.data() + text.size(), number);
    place = static_cast<size_t>(end - text.data());
    skip(" :");
    const char quote = place < text.size() ? text[place] : ' ';
    if (error != std::errc() || number != static_cast<int64_t>(labels.size()) || (quote != '\'' && quote != '"'))
      fail("{}: expected {{0: 'name', 1: 'name'}} in order, found {}", where, quoted(text));
    std::string label;
    for (++place; place < text.size() && text[place] != quote; ++place) {
      if (text[place] == '\\' && place + 1 < text.size()) ++place;
      label += text[place];
    }
    if (place >= text.size()) fail("{}: expected a name that ends, found {}", where, quoted(text));
    labels.push_back(std::move(label));
    ++place;
    skip(" ,");
  }
  return labels;
}

}  // namespace transom
