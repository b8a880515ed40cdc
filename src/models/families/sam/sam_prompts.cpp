// SPDX-License-Identifier: Apache-2.0
#include <numbers>

#include "base/error.h"
#include "models/families/sam/sam_parts.h"

namespace transom {
namespace {

// One vector of a table: "point_embed.0.weight".
std::shared_ptr<Parameter> sam_vector(const Scope& scope, int64_t width) {
  return scope.parameter("weight", {1, width}, Initial::normal(1));
}

Convolution::Options sam_halves() { return {.strides = {2, 2}}; }

}  // namespace

SamPositions::SamPositions(const Scope& scope, const SamVisionConfig& c)
    : positional_embedding_(scope.parameter("positional_embedding", {2, c.num_pos_feats},
                                            Initial::normal(static_cast<double>(c.hidden_size / 2)))) {}

Tensor SamPositions::operator()(const Tensor& places) const {
  // In 32 bits: what is turned around often does not bear the rounding of 16.
  const Tensor directions = cast(positional_embedding_->value, DType::kFloat32);
  const Tensor around = cast(places, DType::kFloat32) * 2 - 1;
  const auto along = [&](int64_t axis) {
    return slice(around, -1, axis, axis + 1) * squeeze(slice(directions, 0, axis, axis + 1), 0);
  };
  const Tensor angles = (along(0) + along(1)) * (2 * std::numbers::pi);
  return cast(concatenate({sin(angles), cos(angles)}, -1), positional_embedding_->value.dtype());
}

Tensor SamPositions::of_grid(int64_t side) const {
  std::vector<float> places;
  const auto middle = [&](int64_t i) { return (static_cast<float>(i) + 0.5f) / static_cast<float>(side); };
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x) places.insert(places.end(), {middle(x), middle(y)});
  return (*this)(Tensor::from(places, {side * side, 2}));
}

SamPromptEncoder::SamPromptEncoder(const Scope& scope, const SamPromptConfig& c, const SamPositions& positions)
    : c_(c),
      positions_(positions),
      conv1_(scope / "mask_embed" / "conv1", 1, c.mask_input_channels / 4, {2, 2}, sam_halves()),
      conv2_(scope / "mask_embed" / "conv2", c.mask_input_channels / 4, c.mask_input_channels, {2, 2}, sam_halves()),
      conv3_(scope / "mask_embed" / "conv3", c.mask_input_channels, c.hidden_size, {1, 1}, {}),
      norm1_(scope / "mask_embed" / "layer_norm1", c.mask_input_channels / 4, c.layer_norm_eps),
      norm2_(scope / "mask_embed" / "layer_norm2", c.mask_input_channels, c.layer_norm_eps),
      no_mask_embed_(sam_vector(scope / "no_mask_embed", c.hidden_size)),
      not_a_point_embed_(sam_vector(scope / "not_a_point_embed", c.hidden_size)) {
  (scope / "shared_embedding").tied("positional_embedding", positions.weight());
  for (int64_t i = 0; i < c.num_point_embeddings; ++i)
    point_embed_.push_back(sam_vector(scope / "point_embed" / i, c.hidden_size));
}

// Labels: 1 a point of what is meant, 0 one that is not, -1 none, -10 filling.
Tensor SamPromptEncoder::of_points(Tensor points, Tensor labels, bool pads) const {
  points = cast(points, DType::kFloat32) + 0.5;  // the middle of a pixel
  labels = cast(labels, DType::kInt64);
  if (pads) {
    const int64_t B = points.dim(0), N = points.dim(1);
    points = concatenate({points, zeros({B, N, 1, 2})}, 2);
    labels = concatenate({labels, full({B, N, 1}, -1, DType::kInt64)}, 2);
  }
  const Tensor waves = positions_(points / static_cast<double>(c_.image_size));
  const auto is = [&](int64_t label) {
    const Tensor same = equal(labels, full(labels.shape(), static_cast<double>(label), DType::kInt64));
    return broadcast_to(unsqueeze(same, -1), waves.shape());
  };
  const auto vector = [&](const std::shared_ptr<Parameter>& parameter) {
    return broadcast_to(parameter->value, waves.shape());
  };
  Tensor x = select(is(-1), vector(not_a_point_embed_), waves);
  x = select(is(-10), zeros(x.shape(), x.dtype()), x);
  for (int64_t label : {0, 1}) x = select(is(label), x + vector(point_embed_[static_cast<size_t>(label)]), x);
  return x;
}

Tensor SamPromptEncoder::of_boxes(const Tensor& boxes) const {
  const int64_t B = boxes.dim(0), N = boxes.dim(1);
  const Tensor corners = reshape(cast(boxes, DType::kFloat32) + 0.5, {B, N, 2, 2});
  const Tensor kinds =
      reshape(concatenate({point_embed_[2]->value, point_embed_[3]->value}, 0), {1, 1, 2, c_.hidden_size});
  return positions_(corners / static_cast<double>(c_.image_size)) + kinds;
}

Tensor SamPromptEncoder::tokens(const NamedTensors& inputs) const {
  const Tensor points = inputs.find("input_points"), boxes = inputs.find("input_boxes");
  Tensor labels = inputs.find("input_labels");
  if (points.defined() && (points.rank() != 4 || points.dim(3) != 2))
    fail("input_points: expected [pictures, masks, points, 2], found {}", to_string(points.shape()));
  if (boxes.defined() && (boxes.rank() != 3 || boxes.dim(2) != 4))
    fail("input_boxes: expected [pictures, boxes, 4], found {}", to_string(boxes.shape()));
  if (points.defined() && boxes.defined() && (points.dim(0) != boxes.dim(0) || points.dim(1) != boxes.dim(1)))
    fail("input_boxes: expected a box for each mask of input_points, {}, found {}", to_string(points.shape()),
         to_string(boxes.shape()));
  if (labels.defined() && !points.defined()) fail("input_labels: expected input_points beside them, found none");
  std::vector<Tensor> parts;
  if (points.defined()) {
    const Shape shape{points.dim(0), points.dim(1), points.dim(2)};
    if (!labels.defined()) labels = full(shape, 1, DType::kInt64);
    if (labels.shape() != shape)
      fail("input_labels: expected {}, found {}", to_string(shape), to_string(labels.shape()));
    parts.push_back(of_points(points, labels, !boxes.defined()));
  }
  if (boxes.defined()) parts.push_back(of_boxes(boxes));
  return parts.empty() ? Tensor() : concatenate(parts, 2);
}

Tensor SamPromptEncoder::places(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor masks = inputs.find("input_masks");
  if (!masks.defined()) return reshape(no_mask_embed_->value, {1, c_.hidden_size, 1, 1});
  const int64_t side = 4 * (c_.image_size / c_.patch_size);
  if (masks.rank() != 4 || masks.dim(1) != 1 || masks.dim(2) != side || masks.dim(3) != side)
    fail("input_masks: expected [pictures, 1, {}, {}], found {}", side, side, to_string(masks.shape()));
  Tensor x = cast(masks, no_mask_embed_->value.dtype());
  x = activation(c_.hidden_act, norm_of_channels(norm1_, conv1_(x, context), context));
  x = activation(c_.hidden_act, norm_of_channels(norm2_, conv2_(x, context), context));
  return conv3_(x, context);
}

}  // namespace transom
