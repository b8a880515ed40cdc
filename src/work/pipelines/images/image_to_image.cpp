// SPDX-License-Identifier: Apache-2.0
// A picture of a picture: a larger one, by an ONNX graph of super-resolution (RCAN, SESR), [1, 3, h, w] to
// [1, 3, f h, f w]; or what a text says, by a diffusion pipeline.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/diffusion/pipeline_directory.h"
#include "work/pipelines/diffusion/image_to_image.h"
#include "work/pipelines/diffusion/picture_request.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/onnx/graph_model.h"

namespace transom {
namespace {

constexpr int64_t kOverlap = 8;            // pixels around a tile that its neighbours show
constexpr int64_t kMostInput = 4'000'000;  // pixels at once
constexpr int64_t kMostFactor = 16;

// A part of a picture whose places beyond the border are those of the border: [1, 3, height, width].
std::vector<float> tile_of(const Image& image, int64_t left, int64_t top, int64_t width, int64_t height, float scale) {
  std::vector<float> values(static_cast<size_t>(3 * width * height));
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* row = image.row(std::clamp<int64_t>(top + y, 0, image.height - 1));
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* pixel = row + 3 * std::clamp<int64_t>(left + x, 0, image.width - 1);
      for (int64_t c = 0; c < 3; ++c)
        values[static_cast<size_t>((c * height + y) * width + x)] = static_cast<float>(pixel[c]) * scale;
    }
  }
  return values;
}

TaskParameter timeout_parameter() {
  return {"timeout", TaskParameter::Type::kNumber, "refused: pictures are not downloaded"};
}

class ImageToImage : public Pipeline {
 public:
  explicit ImageToImage(GraphModel model) : model_(std::move(model)) {
    const onnx::ValueInfo& input = model_.only_input();
    if (!input.shape || input.shape->size() != 4)
      fail("{}: input {}: expected pictures [1, 3, height, width]", model_.where(), quoted(input.name));
    height_ = GraphModel::extent(input, 2), width_ = GraphModel::extent(input, 3);
    if ((height_ > 0 && height_ <= 2 * kOverlap) || (width_ > 0 && width_ <= 2 * kOverlap) ||
        (height_ > 0 && width_ > kMostInput / height_))
      fail("{}: input {}: pictures of {} x {} pixels are too small or too large", model_.where(), quoted(input.name),
           width_, height_);
    // What graphs of 8 bits were trained on, and what others were.
    range_ = model_.config().get_float("pixel_range", model_.kind() == "rcan" ? 255 : 1);
    if (!(range_ > 0 && range_ <= 65535)) fail("{}: pixel_range: found {}", model_.config().where(), range_);
  }

  TaskParameters parameters() const override { return {timeout_parameter()}; }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs)
      results.emplace_back(std::vector<Picture>{enlarged(image_of(image_input(input).source))});
    return results;
  }

 private:
  Picture enlarged(const Image& image) const {
    const bool whole = height_ < 1 && width_ < 1;
    if (whole && image.width > kMostInput / image.height)
      fail("the picture: expected at most {} pixels at once, found {} x {}", kMostInput, image.width, image.height);
    const int64_t height = height_ > 0 ? height_
                           : whole     ? image.height
                                       : std::min<int64_t>(image.height, 256),
                  width = width_ > 0 ? width_
                          : whole    ? image.width
                                     : std::min<int64_t>(image.width, 256);
    const int64_t rim_x = width >= image.width && width_ < 1 ? 0 : kOverlap,
                  rim_y = height >= image.height && height_ < 1 ? 0 : kOverlap;
    const int64_t step_x = std::max<int64_t>(width - 2 * rim_x, 1), step_y = std::max<int64_t>(height - 2 * rim_y, 1);
    Picture result;
    std::vector<uint8_t> pixels;
    int64_t factor = 0;
    for (int64_t top = 0; top < image.height; top += step_y)
      for (int64_t left = 0; left < image.width; left += step_x) {
        const FeatureArray tile = larger(
            tile_of(image, left - rim_x, top - rim_y, width, height, static_cast<float>(range_ / 255)), width, height);
        if (factor == 0) {
          factor = tile.shape[2] / height;
          expect_extents(image.width * factor, image.height * factor);
          result = {image.width * factor, image.height * factor, 3, {}};
          pixels.resize(static_cast<size_t>(3 * result.width * result.height));
        }
        const int64_t rows = std::min(step_y, image.height - top) * factor,
                      columns = std::min(step_x, image.width - left) * factor;
        for (int64_t y = 0; y < rows; ++y)
          for (int64_t x = 0; x < columns; ++x)
            for (int64_t c = 0; c < 3; ++c) {
              const float value = tile.values[static_cast<size_t>(
                  (c * height * factor + y + rim_y * factor) * width * factor + x + rim_x * factor)];
              const double level = std::isnan(value) ? 0 : std::nearbyint(static_cast<double>(value) * 255 / range_);
              pixels[static_cast<size_t>(((top * factor + y) * result.width + left * factor + x) * 3 + c)] =
                  static_cast<uint8_t>(std::clamp(level, 0.0, 255.0));
            }
      }
    result.values = std::move(pixels);
    return result;
  }

  FeatureArray larger(const std::vector<float>& values, int64_t width, int64_t height) const {
    std::vector<FeatureArray> outputs =
        model_.run({{model_.only_input().name, Tensor::from(values, {1, 3, height, width})}});
    const Shape shape = outputs.empty() ? Shape{} : outputs[0].shape;
    const int64_t factor = shape.size() == 4 ? shape[2] / height : 0;
    if (factor < 1 || factor > kMostFactor || shape != Shape{1, 3, height * factor, width * factor})
      fail("{}: expected a picture [1, 3, f {}, f {}] with a factor f up to {}, found {}", model_.where(), height,
           width, kMostFactor, fmt::join(shape, ", "));
    return std::move(outputs[0]);
  }

  GraphModel model_;
  int64_t width_ = -1, height_ = -1;  // of the graph's pictures; below 1: any
  double range_ = 1;                  // of its numbers
};

TaskParameters image_to_image_parameters() {
  TaskParameters all = changed_picture_parameters();
  for (TaskParameter& parameter : picture_parameters()) all.push_back(std::move(parameter));
  all.push_back(timeout_parameter());
  return all;
}

std::unique_ptr<Pipeline> load_image_to_image(const std::string& directory, const LoadOptions& options,
                                              const std::string& /*task*/) {
  if (is_pipeline_directory(fs::path(directory))) return load_picture_change(directory, options);
  if (!GraphModel::is_of(directory))
    fail("{}: image-to-image: expected a diffusion pipeline, or an ONNX graph of super-resolution", directory);
  return std::make_unique<ImageToImage>(GraphModel::load(directory, options));
}

constexpr TaskRecord kImageToImage{.name = "image-to-image",
                                   .example = "small.png --output large.png",
                                   .input = InputKind::kImage,
                                   .result = ResultKind::kPictures,
                                   .parameters = image_to_image_parameters,
                                   .load = load_image_to_image};
const RegisterTask kRegisterImageToImage(kImageToImage);

}  // namespace
}  // namespace transom
