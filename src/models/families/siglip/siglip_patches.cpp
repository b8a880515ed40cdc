// SPDX-License-Identifier: Apache-2.0
#include "models/families/siglip/siglip_patches.h"

#include <cmath>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/families/siglip/siglip_towers.h"

namespace transom {
namespace {

constexpr const char* kFormsOfPatches = "spatial_shapes";

int64_t square_side(int64_t count) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  return side * side == count ? side : 0;
}

int64_t numbers_of_patch(const SiglipVisionConfig& c) {
  if (c.patch_size[0] != c.patch_size[1])
    fail("config.json: patch_size: expected one number, found {} and {}", c.patch_size[0], c.patch_size[1]);
  return c.num_channels * c.patch_size[0] * c.patch_size[1];
}

// How much each of `side` places counts at places of a line of `size` [B, 1, 1] others, of which `at` [B, P, 1] says
// the numbers: a triangle as wide as what falls together, as torch resamples with antialias. -> [B, P, side]
Tensor triangles(const Tensor& at, const Tensor& size, int64_t side) {
  const Shape all{at.dim(0), at.dim(1), side};
  const Tensor scale = static_cast<double>(side) / size;
  const Tensor support = maximum(scale, full(scale.shape(), 1, DType::kFloat32));
  const Tensor center = (at + 0.5) * scale - 0.5;
  const Tensor away = abs(iota({1, 1, side}, 2, DType::kFloat32) - center) / support;
  const Tensor weights = maximum(1.0 - away, zeros(all, DType::kFloat32));
  return weights / reduce_sum(weights, {2}, true);
}

}  // namespace

SiglipPatches::SiglipPatches(const Scope& scope, const SiglipVisionConfig& c)
    : numbers_(numbers_of_patch(c)),
      side_(square_side(c.num_patches)),
      patch_embedding_(scope / "patch_embedding", numbers_, c.hidden_size, {.deviation = c.initializer_range}),
      position_embedding_((scope / "position_embedding")
                              .parameter("weight", {c.num_patches, c.hidden_size},
                                         Initial::normal(1 / std::sqrt(static_cast<double>(c.hidden_size))))) {
  if (side_ == 0) fail("config.json: num_patches: expected those of a square, found {}", c.num_patches);
}

std::vector<std::string> SiglipPatches::input_names() {
  return {"pixel_values", "pixel_attention_mask", kFormsOfPatches};
}

Tensor SiglipPatches::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor pixels = inputs.find("pixel_values");
  if (!pixels.defined() || pixels.rank() != 3 || pixels.dim(2) != numbers_)
    fail("pixel_values: expected [batch, patches, {}], found {}", numbers_,
         pixels.defined() ? to_string(pixels.shape()) : "none");
  const Tensor shapes = shapes_of(inputs, pixels);
  return patch_embedding_(pixels, context) + positions(shapes, pixels.dim(1), context);
}

Tensor SiglipPatches::shapes_of(const NamedTensors& inputs, const Tensor& pixels) const {
  const int64_t B = pixels.dim(0), P = pixels.dim(1);
  const Tensor shapes = inputs.find(kFormsOfPatches);
  if (!shapes.defined()) {
    const int64_t side = square_side(P);
    if (side == 0) fail("{}: missing; {} patches are no square", kFormsOfPatches, P);
    return full({B, 2}, static_cast<double>(side), DType::kInt64);
  }
  if (shapes.shape() != Shape{B, 2})
    fail("{}: expected {}, rows and columns of patches for each picture, found {}", kFormsOfPatches, to_string({B, 2}),
         to_string(shapes.shape()));
  if (!shapes.node()->computed(shapes.output())) return shapes;  // a trace's: numbers that do not fit give none
  const std::vector<int64_t> numbers = cast(shapes, DType::kInt64).to_vector<int64_t>();
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    if (numbers[i] < 1 || numbers[i + 1] < 1 || numbers[i] > P / numbers[i + 1])
      fail("{}: expected numbers from 1 whose product is at most {}, the patches in pixel_values, found {} x {}",
           kFormsOfPatches, P, numbers[i], numbers[i + 1]);
  return shapes;
}

// Those of the square grid, resampled for each picture's form; behind a picture's patches stand those of the first.
// [B, count, D]
Tensor SiglipPatches::positions(const Tensor& shapes, int64_t count, const ForwardContext& context) const {
  const int64_t B = shapes.dim(0);
  const Tensor sizes = reshape(cast(shapes, DType::kFloat32), {B, 1, 2});
  const Tensor height = slice(sizes, 2, 0, 1), width = slice(sizes, 2, 1, 2);
  const Tensor place = broadcast_to(iota({1, count, 1}, 1, DType::kFloat32), {B, count, 1});
  const Tensor inside = cast(less(place, broadcast_to(height * width, {B, count, 1})), DType::kFloat32);
  const Tensor row = floor(place / width);
  const Tensor of_rows = triangles(row * inside, height, side_);
  const Tensor of_columns = triangles((place - row * width) * inside, width, side_);
  const Tensor weights = reshape(unsqueeze(of_rows, 3) * unsqueeze(of_columns, 2), {B, count, side_ * side_});
  const Tensor grid = cast(position_embedding_->value, DType::kFloat32);
  return dot_general(weights, grid, {{}, {}, {2}, {0}}, context.computing);
}

}  // namespace transom
