// SPDX-License-Identifier: Apache-2.0
#include "models/families/rt_detr/rt_detr_encoder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Where each place of a map is, [1, h w, width]: sines and cosines of its row, then of its column.
Tensor rt_detr_positions(int64_t height, int64_t width, int64_t numbers, double temperature) {
  const int64_t quarter = numbers / 4;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(height * width * numbers));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (const int64_t place : {y, x})
        for (const bool is_sine : {true, false})
          for (int64_t i = 0; i < quarter; ++i) {
            const double exponent = static_cast<double>(i) / static_cast<double>(quarter);
            const double angle = static_cast<double>(place) * (1 / std::pow(temperature, exponent));
            values.push_back(static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle)));
          }
  return Tensor::from(values, {1, height * width, numbers});
}

// Each place twice along both axes.
Tensor twice_as_large(const Tensor& x) {
  const int64_t B = x.dim(0), C = x.dim(1), h = x.dim(2), w = x.dim(3);
  return reshape(broadcast_to(reshape(x, {B, C, h, 1, w, 1}), {B, C, h, 2, w, 2}), {B, C, 2 * h, 2 * w});
}

RTDetrConvolution::Form with_activation(const RTDetrConfig& c, int64_t window, int64_t stride) {
  return {.window = window, .stride = stride, .activation = c.activation_function, .epsilon = c.batch_norm_eps};
}

}  // namespace

RTDetrConvolution::RTDetrConvolution(const Scope& scope, int64_t in, int64_t out, const Form& form)
    : activation_(form.activation),
      conv_(scope / form.convolution, in, out, {form.window, form.window},
            {.strides = {form.stride, form.stride},
             .low = {(form.window - 1) / 2, (form.window - 1) / 2},
             .high = {(form.window - 1) / 2, (form.window - 1) / 2},
             .bias = false}),
      norm_(scope / form.norm, out, form.epsilon) {}

Tensor RTDetrConvolution::operator()(const Tensor& x, ForwardContext& context) const {
  const Tensor y = norm_(conv_(x, context), context);
  return activation_.empty() ? y : activation(activation_, y);
}

RTDetrJoin::RTDetrJoin(const Scope& scope, const RTDetrConfig& c)
    : activation_(c.activation_function),
      conv1_(scope / "conv1", 2 * c.encoder_hidden_dim, c.csp_width, with_activation(c, 1, 1)),
      conv2_(scope / "conv2", 2 * c.encoder_hidden_dim, c.csp_width, with_activation(c, 1, 1)) {
  constexpr int64_t kBlocks = 3;
  for (int64_t i = 0; i < kBlocks; ++i) {
    const Scope names = scope / "bottlenecks" / i;
    bottlenecks_.push_back({{names / "conv1", c.csp_width, c.csp_width, {.window = 3, .epsilon = c.batch_norm_eps}},
                            {names / "conv2", c.csp_width, c.csp_width, {.window = 1, .epsilon = c.batch_norm_eps}}});
  }
  if (c.csp_width != c.encoder_hidden_dim)
    conv3_.emplace(scope / "conv3", c.csp_width, c.encoder_hidden_dim, with_activation(c, 1, 1));
}

Tensor RTDetrJoin::operator()(const Tensor& one, const Tensor& other, ForwardContext& context) const {
  const Tensor both = concatenate({one, other}, 1);
  Tensor x = conv1_(both, context);
  for (const Block& block : bottlenecks_)
    x = activation(activation_, block.wide(x, context) + block.narrow(x, context));
  x = x + conv2_(both, context);
  return conv3_ ? (*conv3_)(x, context) : x;
}

RTDetrEncoder::RTDetrEncoder(const Scope& scope, const RTDetrConfig& c) : c_(c) {
  const DetrLayerShape shape{.width = c.encoder_hidden_dim,
                             .heads = c.encoder_attention_heads,
                             .inner = c.encoder_ffn_dim,
                             .activation = c.encoder_activation_function,
                             .dropout = c.dropout,
                             .attention_dropout = c.dropout,
                             .activation_dropout = c.activation_dropout,
                             .deviation = c.initializer_range,
                             .epsilon = c.layer_norm_eps,
                             .norms_first = c.normalize_before,
                             .adds_normed = true};
  for (size_t i = 0; i < c.encode_proj_layers.size(); ++i) {
    const Scope layers = scope / "encoder" / static_cast<int64_t>(i) / "layers";
    std::vector<DetrEncoderLayer>& made = encoder_.emplace_back();
    for (int64_t k = 0; k < c.encoder_layers; ++k) made.emplace_back(layers / k, shape);
  }
  const int64_t width = c.encoder_hidden_dim;
  for (int64_t i = 0; i + 1 < c.levels; ++i) {
    lateral_convs_.emplace_back(scope / "lateral_convs" / i, width, width, with_activation(c, 1, 1));
    fpn_blocks_.emplace_back(scope / "fpn_blocks" / i, c);
  }
  for (int64_t i = 0; i + 1 < c.levels; ++i) {
    downsample_convs_.emplace_back(scope / "downsample_convs" / i, width, width, with_activation(c, 3, 2));
    pan_blocks_.emplace_back(scope / "pan_blocks" / i, c);
  }
}

Tensor RTDetrEncoder::among_places(const std::vector<DetrEncoderLayer>& layers, const Tensor& map,
                                   ForwardContext& context) const {
  Tensor positions;
  // With eval_size Transformers leaves the positions out where it does not train.
  if (context.training || !c_.has_eval_size)
    positions = cast(rt_detr_positions(map.dim(2), map.dim(3), map.dim(1), c_.temperature), map.dtype());
  Tensor x = permute(flatten(map, 2, 3), {0, 2, 1});
  for (const DetrEncoderLayer& layer : layers) x = layer(x, positions, Tensor(), context);
  return cast(reshape(permute(x, {0, 2, 1}), map.shape()), map.dtype());  // of 16 bits the norms give 32
}

std::vector<Tensor> RTDetrEncoder::operator()(std::vector<Tensor> maps, ForwardContext& context) const {
  for (size_t i = 0; i + 1 < maps.size(); ++i)
    for (const int64_t axis : {2, 3})
      if (maps[i].dim(axis) != 2 * maps[i + 1].dim(axis))
        fail(
            "pixel_values: the maps of {} and {} do not fit: expected pictures whose extents are multiples of the "
            "stride of the coarsest map",
            to_string(maps[i].shape()), to_string(maps[i + 1].shape()));
  for (size_t i = 0; i < encoder_.size() && c_.encoder_layers > 0; ++i) {
    Tensor& map = maps[static_cast<size_t>(c_.encode_proj_layers[i])];
    map = among_places(encoder_[i], map, context);
  }
  std::vector<Tensor> down{maps.back()};  // from the coarsest to the finest
  for (size_t i = 0; i < fpn_blocks_.size(); ++i) {
    down.back() = lateral_convs_[i](down.back(), context);
    down.push_back(fpn_blocks_[i](twice_as_large(down.back()), maps[maps.size() - 2 - i], context));
  }
  std::reverse(down.begin(), down.end());
  std::vector<Tensor> up{down[0]};
  for (size_t i = 0; i < pan_blocks_.size(); ++i)
    up.push_back(pan_blocks_[i](downsample_convs_[i](up.back(), context), down[i + 1], context));
  return up;
}

}  // namespace transom
