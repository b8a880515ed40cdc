// SPDX-License-Identifier: Apache-2.0
// Masks of all that is in a picture, or of what a user points at (Kirillov et al., 2023).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "base/threads/threads.h"
#include "work/pipelines/images/box_suppression.h"
#include "work/pipelines/images/enlarged_map.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/images/masks/mask_crops.h"

namespace transom {
namespace {

using MaskPoints = std::vector<std::array<double, 2>>;

struct MaskOptions {
  explicit MaskOptions(const TaskOptions& options)
      : batch(int_option(options, "points_per_batch", 64)),
        least_score(number_option(options, "pred_iou_thresh").value_or(0.88)),
        least_stability(number_option(options, "stability_score_thresh").value_or(0.95)),
        threshold(number_option(options, "mask_threshold").value_or(0)),
        offset(number_option(options, "stability_score_offset").value_or(1)),
        most_overlap(number_option(options, "crops_nms_thresh").value_or(0.7)) {
    crops.layers = int_option(options, "crops_n_layers", 0);
    crops.overlap = number_option(options, "crop_overlap_ratio").value_or(crops.overlap);
    crops.points_per_side = int_option(options, "points_per_crop", crops.points_per_side);
    crops.fewer_points = int_option(options, "crop_n_points_downscale_factor", 1);
    const auto within = [](const char* name, int64_t value, int64_t least, int64_t most) {
      if (value < least || value > most)
        fail(ErrorKind::kUsage, "{}: expected a number from {} to {}, found {}", name, least, most, value);
    };
    within("points_per_batch", batch, 1, 1 << 16);
    within("crops_n_layers", crops.layers, 0, 4);
    within("points_per_crop", crops.points_per_side, 1, 256);
    within("crop_n_points_downscale_factor", crops.fewer_points, 1, 256);
    if (!(crops.overlap >= 0 && crops.overlap < 1))
      fail(ErrorKind::kUsage, "crop_overlap_ratio: expected a number from 0 to below 1, found {}", crops.overlap);
  }
  int64_t batch;
  double least_score, least_stability, threshold, offset, most_overlap;
  MaskCropOptions crops;
};

// A mask in a part of the picture, with what it is judged by.
struct FoundMask {
  double score = 0;
  float stability = 0;  // how much of it is left with a higher threshold, of what a lower one gives; NaN of nothing
  MaskBox box;          // in pixels of the part
  std::vector<bool> pixels;
};

// A part of the picture as the model sees it.
struct SeenPart {
  MaskCrop crop;
  ImageProcessor::Pixels pixels;
  int64_t height = 0, width = 0;  // without what fills it up
  Tensor embeddings;
};

// Numbers in JSON as lists of so many: [[x, y], ...].
std::vector<std::vector<double>> number_lists(const Json& json, size_t count, const std::string& name) {
  std::vector<std::vector<double>> lists;
  const auto refuse = [&] {
    fail(ErrorKind::kUsage, "{}: expected a list of lists of {} numbers, found {}", name, count,
         quoted(dump_json(json).substr(0, 60)));
  };
  if (!json.is_array() || json.empty()) refuse();
  for (const Json& each : json) {
    if (!each.is_array() || each.size() != count) refuse();
    std::vector<double>& list = lists.emplace_back();
    for (const Json& number : each) {
      if (!number.is_number()) refuse();
      list.push_back(number.get<double>());
    }
  }
  return lists;
}

class MaskGeneration : public Pipeline {
 public:
  explicit MaskGeneration(ImageModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const MaskOptions wanted(options);
    const bool points_at = is_given(options, "input_points") || is_given(options, "input_boxes");
    if (points_at)
      refuse_without_effect(options,
                            {"points_per_batch", "points_per_crop", "crops_n_layers", "crop_overlap_ratio",
                             "crop_n_points_downscale_factor", "pred_iou_thresh", "stability_score_thresh",
                             "stability_score_offset", "crops_nms_thresh"},
                            "on what input_points and input_boxes point at");
    if (!is_given(options, "input_points")) refuse_without_effect(options, {"input_labels"}, "without input_points");
    const NoGradient inference;
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const Image image = image_of(image_input(input).source);
      results.emplace_back(points_at ? pointed_at(image, options, wanted) : everything(image, wanted));
    }
    return results;
  }

 private:
  SeenPart seen(const Image& image, const MaskCrop& crop) const {
    SeenPart part{.crop = crop};
    const bool is_whole = crop.width() == image.width && crop.height() == image.height;
    part.pixels =
        model_.processor(is_whole ? image : transom::crop(image, crop.left, crop.top, crop.width(), crop.height()));
    part.height = part.pixels.height, part.width = part.pixels.width;
    for (const auto& [name, numbers] : part.pixels.beside)
      if (name == "reshaped_input_sizes") part.height = numbers[0], part.width = numbers[1];
    part.embeddings = model_.model->forward({{"pixel_values", pixel_values({&part.pixels, 1})}}).at("image_embeddings");
    eval({part.embeddings});
    return part;
  }

  struct Scored {
    std::vector<float> maps, scores;  // [masks, h, w], [masks]
    int64_t h = 0, w = 0;
  };
  Scored scored(NamedTensors prompts, const SeenPart& part) const {
    prompts.set("image_embeddings", part.embeddings);
    const NamedTensors outputs = model_.model->forward(prompts);
    const Tensor& maps = outputs.at("pred_masks");
    return {maps.to_vector<float>(), outputs.at("iou_scores").to_vector<float>(), maps.dim(-2), maps.dim(-1)};
  }

  // Map `number` at the extents of the part: enlarged to the model's picture, without what fills that up, and from
  // there to the part, as post_process_masks() does it.
  static FoundMask mask_of(const Scored& found, size_t number, const SeenPart& part, const MaskOptions& wanted) {
    const auto plane = static_cast<size_t>(found.h * found.w);
    const EnlargedMaps padded(std::span(found.maps).subspan(number * plane, plane), 1, found.h, found.w,
                              part.pixels.height, part.pixels.width);
    std::vector<float> line(static_cast<size_t>(part.pixels.width)), inner;
    inner.reserve(static_cast<size_t>(part.height * part.width));
    for (int64_t y = 0; y < part.height; ++y) {
      padded.line(0, y, line);
      inner.insert(inner.end(), line.begin(), line.begin() + part.width);
    }
    const int64_t H = part.crop.height(), W = part.crop.width();
    const EnlargedMaps map(inner, 1, part.height, part.width, H, W);
    FoundMask mask{.score = found.scores[number]};
    mask.pixels.resize(static_cast<size_t>(H * W));
    int64_t inside = 0, around = 0;
    MaskBox box{W, H, -1, -1};
    line.resize(static_cast<size_t>(W));
    for (int64_t y = 0; y < H; ++y) {
      map.line(0, y, line);
      for (int64_t x = 0; x < W; ++x) {
        const double value = line[static_cast<size_t>(x)];
        inside += value > wanted.threshold + wanted.offset;
        around += value > wanted.threshold - wanted.offset;
        if (!(value > wanted.threshold)) continue;
        mask.pixels[static_cast<size_t>(y * W + x)] = true;
        box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x), std::max(box.bottom, y)};
      }
    }
    mask.stability =
        around > 0 ? static_cast<float>(inside) / static_cast<float>(around) : std::numeric_limits<float>::quiet_NaN();
    if (box.right >= 0) mask.box = box;
    return mask;
  }

  static Picture picture_of(const FoundMask& mask, const MaskCrop& crop, const Image& image) {
    Picture picture{image.width, image.height, 1, std::vector<uint8_t>(image.pixels.size() / 3, 0)};
    auto& values = std::get<std::vector<uint8_t>>(picture.values);
    for (int64_t y = 0; y < crop.height(); ++y)
      for (int64_t x = 0; x < crop.width(); ++x)
        if (mask.pixels[static_cast<size_t>(y * crop.width() + x)])
          values[static_cast<size_t>((crop.top + y) * image.width + crop.left + x)] = 255;
    return picture;
  }

  // What is at points of a grid, as long as the model is sure of it, and each object once.
  std::vector<Segment> everything(const Image& image, const MaskOptions& wanted) const {
    struct Candidate {  // no picture yet: most of them show what another one shows
      FoundMask mask;
      const MaskCrop& crop;
    };
    std::vector<Candidate> candidates;
    std::vector<ScoredBox> boxes;
    const std::vector<MaskCrop> crops = mask_crops(image.width, image.height, wanted.crops);
    for (const MaskCrop& crop : crops) {
      const SeenPart part = seen(image, crop);
      const MaskPoints points = crop.points();
      const auto batch = static_cast<size_t>(wanted.batch);
      for (size_t first = 0; first < points.size(); first += batch) {
        const size_t count = std::min(batch, points.size() - first);
        const Tensor at =
            points_of(std::span(points).subspan(first, count), part, {1, static_cast<int64_t>(count), 1, 2});
        for (FoundMask& mask : kept_masks(scored({{"input_points", at}}, part), part, image, wanted)) {
          boxes.push_back({static_cast<float>(mask.box.left + crop.left), static_cast<float>(mask.box.top + crop.top),
                           static_cast<float>(mask.box.right + crop.left),
                           static_cast<float>(mask.box.bottom + crop.top), static_cast<float>(mask.score),
                           static_cast<int64_t>(candidates.size())});
          candidates.push_back({std::move(mask), crop});
        }
      }
    }
    std::vector<Segment> segments;
    for (const ScoredBox& box : without_overlaps(boxes, wanted.most_overlap, true, boxes.size())) {
      const auto& [mask, crop] = candidates[static_cast<size_t>(box.label)];
      segments.push_back({"", box.score, picture_of(mask, crop, image)});
    }
    return segments;
  }

  static std::vector<FoundMask> kept_masks(const Scored& found, const SeenPart& part, const Image& image,
                                           const MaskOptions& wanted) {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < found.scores.size(); ++i)
      if (!(wanted.least_score > 0) || static_cast<double>(found.scores[i]) > wanted.least_score) numbers.push_back(i);
    std::vector<FoundMask> masks(numbers.size());
    parallel_for(numbers.size(), [&](size_t i) { masks[i] = mask_of(found, numbers[i], part, wanted); });
    std::erase_if(masks, [&](const FoundMask& mask) {
      const bool is_stable =
          !(wanted.least_stability > 0) || static_cast<double>(mask.stability) > wanted.least_stability;
      return !is_stable || is_cut_off(mask.box, part.crop, image.width, image.height);
    });
    return masks;
  }

  // Pixels of a part as pixels of the picture that the model sees.
  static Tensor points_of(std::span<const std::array<double, 2>> points, const SeenPart& part, const Shape& shape) {
    const double across = static_cast<double>(part.width) / static_cast<double>(part.crop.width()),
                 down = static_cast<double>(part.height) / static_cast<double>(part.crop.height());
    std::vector<float> values;
    for (const auto& [x, y] : points)
      values.insert(values.end(), {static_cast<float>(x * across), static_cast<float>(y * down)});
    return Tensor::from(values, shape);
  }

  // The masks that the model offers for the points of one object, and for each box.
  std::vector<Segment> pointed_at(const Image& image, const TaskOptions& options, const MaskOptions& wanted) const {
    const SeenPart part = seen(image, {0, 0, image.width, image.height, 0});
    NamedTensors prompts;
    if (is_given(options, "input_points")) {
      MaskPoints points;
      for (const auto& each : number_lists(json_option(options, "input_points"), 2, "input_points"))
        points.push_back({each[0], each[1]});
      const auto count = static_cast<int64_t>(points.size());
      prompts.set("input_points", points_of(points, part, {1, 1, count, 2}));
      if (is_given(options, "input_labels")) {
        const Json labels = json_option(options, "input_labels");
        if (!labels.is_array() || labels.size() != points.size() ||
            !std::all_of(labels.begin(), labels.end(), [](const Json& label) { return label == 0 || label == 1; }))
          fail(ErrorKind::kUsage, "input_labels: expected 1 (part of the object) or 0 (not) for each of {} points",
               points.size());
        prompts.set("input_labels", Tensor::from(labels.get<std::vector<int64_t>>(), {1, 1, count}));
      }
    }
    if (is_given(options, "input_boxes")) {
      MaskPoints corners;
      for (const auto& each : number_lists(json_option(options, "input_boxes"), 4, "input_boxes"))
        corners.insert(corners.end(), {{each[0], each[1]}, {each[2], each[3]}});
      const auto count = static_cast<int64_t>(corners.size() / 2);
      if (count != 1 && is_given(options, "input_points"))
        fail(ErrorKind::kUsage, "input_boxes: expected one box beside input_points, found {}", count);
      prompts.set("input_boxes", points_of(corners, part, {1, count, 4}));
    }
    const Scored found = scored(std::move(prompts), part);
    std::vector<Segment> segments;
    for (size_t i = 0; i < found.scores.size(); ++i)
      segments.push_back(
          {"", static_cast<double>(found.scores[i]), picture_of(mask_of(found, i, part, wanted), part.crop, image)});
    return segments;
  }

  ImageModel model_;
};

TaskParameters mask_generation_parameters() {
  using Type = TaskParameter::Type;
  return {{"input_points", Type::kJson, "points of one object, [[x, y], ...] in pixels, in place of all objects"},
          {"input_labels", Type::kJson, "of each of them 1, or 0 where it is not part of the object", "1 for all"},
          {"input_boxes", Type::kJson, "boxes around objects, [[left, top, right, bottom], ...] in pixels"},
          {"mask_threshold", Type::kNumber, "above which number a pixel belongs to an object", "0"},
          {"pred_iou_thresh", Type::kNumber, "how good a mask has to be in the model's own eyes", "0.88"},
          {"stability_score_thresh", Type::kNumber, "how much of a mask has to stay with another threshold", "0.95"},
          {"stability_score_offset", Type::kNumber, "by how much that is another", "1"},
          {"crops_nms_thresh", Type::kNumber, "how much boxes of one object overlap", "0.7"},
          {"crops_n_layers", Type::kInteger, "also in 4, 16 ... parts of the picture", "0"},
          {"crop_overlap_ratio", Type::kNumber, "how much parts overlap", "0.341"},
          {"points_per_crop", Type::kInteger, "points of the grid along a side", "32"},
          {"crop_n_points_downscale_factor", Type::kInteger, "by how much fewer they are in the parts of a layer", "1"},
          {"points_per_batch", Type::kInteger, "how many points the model sees at once", "64"},
          {"timeout", Type::kNumber, "refused: pictures are not downloaded"}};
}

constexpr TaskRecord kMaskGeneration{.name = "mask-generation",
                                     .example = "street.png --input_points \"[[120, 80]]\" --output masks.png",
                                     .input = InputKind::kImage,
                                     .result = ResultKind::kSegments,
                                     .json = {.classes = JsonForm::Classes::kLists},
                                     .parameters = mask_generation_parameters,
                                     .load = load_image_task<MaskGeneration>};
const RegisterTask kRegisterMaskGeneration(kMaskGeneration);

}  // namespace
}  // namespace transom
