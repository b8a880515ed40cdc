// SPDX-License-Identifier: Apache-2.0
#include "models/shared/vision_inputs.h"

#include <cmath>

#include "base/error.h"
#include "files/config/config.h"
#include "models/shared/encoder_heads.h"
#include "transom/ops.h"

namespace transom {

const Tensor& image_input(const NamedTensors& inputs, int64_t channels) {
  const Tensor& image = inputs.at("pixel_values");
  if (image.rank() != 4 || image.dim(1) != channels)
    fail("pixel_values: expected [batch, {}, height, width], found {}", channels, to_string(image.shape()));
  return image;
}

Extents size_of(const Tensor& image) { return {image.dim(2), image.dim(3)}; }

PatchEmbeddings::PatchEmbeddings(const Scope& scope, int64_t channels, int64_t width, Extents patch, double deviation,
                                 bool bias)
    : projection_(scope, channels, width, {patch[0], patch[1]},
                  {.strides = {patch[0], patch[1]}, .bias = bias, .deviation = deviation}) {}

Tensor PatchEmbeddings::operator()(const Tensor& image, const ForwardContext& context) const {
  return permute(flatten(projection_(image, context), 2, 3), {0, 2, 1});
}

Extents patch_grid(Extents image, Extents patch) {
  for (const Extents& extents : {image, patch})
    for (const int64_t extent : extents)
      if (extent < 1 || extent > int64_t{1} << 20)
        fail("config.json: image_size and patch_size: expected numbers above 0, found {}x{} and {}x{}", image[0],
             image[1], patch[0], patch[1]);
  return {image[0] / patch[0], image[1] / patch[1]};
}

Tensor interpolated_positions(const Tensor& positions, int64_t first, Extents grid, const Computing& computing,
                              GridResampling resampling) {
  const int64_t count = positions.dim(1) - first, D = positions.dim(2);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  if (side * side != count)
    fail("position embeddings of {} patches are no square grid: they cannot be interpolated", count);
  const Tensor square = reshape(slice(positions, 1, first, first + count), {side, side, D});
  const Tensor resized = reshape(resampling(square, grid[0], grid[1], computing), {1, grid[0] * grid[1], D});
  return first == 0 ? resized : concatenate({slice(positions, 1, 0, first), resized}, 1);
}

int64_t positive(const Config& config, std::string_view field, int64_t otherwise, int64_t most) {
  const int64_t value = config.get_int(field, otherwise);
  if (value < 1) fail("{}: {}: expected a number above 0, found {}", config.where(), field, value);
  if (value > most) fail("{}: {}: expected at most {}, found {}", config.where(), field, most, value);
  return value;
}

Tensor with_masked_patches(const Tensor& embeddings, const Tensor& bool_masked_pos, const Tensor& mask_token) {
  if (!bool_masked_pos.defined()) return embeddings;
  if (bool_masked_pos.size() != embeddings.dim(0) * embeddings.dim(1))
    fail("bool_masked_pos: expected [{}, {}], found {}", embeddings.dim(0), embeddings.dim(1),
         to_string(bool_masked_pos.shape()));
  const Tensor masked = reshape(cast(bool_masked_pos, DType::kBool), {embeddings.dim(0), embeddings.dim(1), 1});
  return select(masked, reshape(cast(mask_token, embeddings.dtype()), {1, 1, embeddings.dim(2)}), embeddings);
}

PixelDecoder::PixelDecoder(const Scope& scope, int64_t width, int64_t channels, int64_t stride)
    : channels_(channels),
      stride_(stride),
      projection_(scope / 0, width, stride * stride * channels, {1, 1}, {.deviation = 0.02}) {}

Tensor PixelDecoder::operator()(const Tensor& patches, const ForwardContext& context) const {
  const int64_t B = patches.dim(0), P = patches.dim(1), D = patches.dim(2);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(P)));
  if (side * side != P) fail("{} patches are no square: the image cannot be put together", P);
  const Tensor pixels = projection_(reshape(permute(patches, {0, 2, 1}), {B, D, side, side}), context);
  const Tensor split = reshape(pixels, {B, channels_, stride_, stride_, side, side});
  return reshape(permute(split, {0, 1, 4, 2, 5, 3}), {B, channels_, side * stride_, side * stride_});
}

NamedTensors masked_image_outputs(const Tensor& reconstruction, const NamedTensors& inputs,
                                  const ForwardContext& context, int64_t patch, int64_t channels) {
  const Tensor masked = inputs.find("bool_masked_pos"), image = inputs.at("pixel_values");
  Tensor loss;
  if (masked.defined()) {
    const int64_t B = reconstruction.dim(0), rows = reconstruction.dim(2) / patch,
                  columns = reconstruction.dim(3) / patch;
    if (image.shape() != reconstruction.shape() || masked.size() != B * rows * columns)
      fail("bool_masked_pos needs patch_size = encoder_stride: {} is to be rebuilt from {}", to_string(image.shape()),
           to_string(reconstruction.shape()));
    const Tensor by_patch = reshape(cast(masked, DType::kFloat32), {B, 1, rows, 1, columns, 1});
    const Tensor mask =
        reshape(broadcast_to(by_patch, {B, 1, rows, patch, columns, patch}), {B, 1, rows * patch, columns * patch});
    const Tensor distances = abs(cast(image, DType::kFloat32) - cast(reconstruction, DType::kFloat32)) * mask;
    loss = mean_of(sum(distances), sum(mask) + 1e-5, context) / static_cast<double>(channels);
  }
  return with_loss(loss, {{"reconstruction", reconstruction}});
}

}  // namespace transom
