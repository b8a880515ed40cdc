// SPDX-License-Identifier: Apache-2.0
// How far away each pixel of a picture is.
#include <algorithm>
#include <cmath>

#include "models/nn/vision/convolution.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class DepthEstimation : public Pipeline {
 public:
  explicit DepthEstimation(ImageModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    refuse_without_effect(options, {"timeout"}, "here: pictures are not downloaded");
    const std::vector<ImageModel::Row> rows = model_.rows(inputs, "predicted_depth", batch_size_of(options));
    std::vector<TaskResult> results;
    for (const ImageModel::Row& row : rows) results.emplace_back(depth_of(row));
    return results;
  }

 private:
  // At the extents of the picture, as post_process_depth_estimation() brings it there.
  static DepthMap depth_of(const ImageModel::Row& row) {
    const NoGradient inference;
    const Tensor depth = Tensor::from(row.values, {row.shape[1], row.shape[2], 1});
    const auto [height, width] = row.picture;
    std::vector<float> values = resize_bicubic(depth, height, width, Computing{}).to_vector<float>();
    Picture picture{width, height, 1, gray_of(values)};
    return {{{height, width}, std::move(values)}, std::move(picture)};
  }

  // From the least to the most in 256 steps; where all is equally far, black.
  static std::vector<uint8_t> gray_of(const std::vector<float>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const float range = *most - *least;
    std::vector<uint8_t> gray;
    for (const float value : values)
      gray.push_back(range > 0 && std::isfinite(range) ? static_cast<uint8_t>((value - *least) / range * 255)
                                                       : uint8_t{0});
    return gray;
  }

  ImageModel model_;
};

TaskParameters depth_estimation_parameters() {
  return {{"timeout", TaskParameter::Type::kNumber, "refused: pictures are not downloaded"}};
}

constexpr TaskRecord kDepthEstimation{.name = "depth-estimation",
                                      .example = "street.png --output depth.png",
                                      .input = InputKind::kImage,
                                      .result = ResultKind::kDepth,
                                      .parameters = depth_estimation_parameters,
                                      .load = load_image_task<DepthEstimation>};
const RegisterTask kRegisterDepthEstimation(kDepthEstimation);

}  // namespace
}  // namespace transom
