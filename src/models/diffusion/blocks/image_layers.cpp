// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/image_layers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/nn/layers.h"

namespace transom {

GroupNorm::GroupNorm(const Scope& scope, int64_t groups, int64_t channels, double epsilon)
    : path_(scope.path()), groups_(groups), epsilon_(epsilon) {
  if (groups < 1 || channels < 1 || channels % groups != 0)
    fail("{}: {} channels are not divisible into {} groups: see norm_num_groups", path_, channels, groups);
  weight_ = scope.parameter("weight", {channels}, Initial::ones());
  bias_ = scope.parameter("bias", {channels}, Initial::zeros());
}

Tensor GroupNorm::operator()(const Tensor& x, const ForwardContext& context) const {
  const ModuleScope module(path_);
  // The rows of a layer norm are the groups.
  const Tensor rows = reshape(x, {x.dim(0) * groups_, -1});
  const Tensor one = full({rows.dim(1)}, 1, x.dtype()), zero = full({rows.dim(1)}, 0, x.dtype());
  const Tensor normed = reshape(layer_norm(rows, one, zero, epsilon_, context.computing), x.shape());
  return normed * over_channels(cast(weight_->value, x.dtype()), x) + over_channels(cast(bias_->value, x.dtype()), x);
}

double torch_deviation(int64_t fan_in) {
  return 1 / std::sqrt(3.0 * static_cast<double>(std::max<int64_t>(fan_in, 1)));
}

Linear torch_linear(const Scope& scope, int64_t in, int64_t out, bool bias) {
  return {scope, in, out, {.bias = bias, .deviation = torch_deviation(in)}};
}

Convolution torch_convolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride,
                              bool padded) {
  Convolution::Options options = Convolution::same(window, stride, 1, true);
  if (!padded) options.low = options.high = {0, 0};
  options.deviation = torch_deviation(in * window * window);
  return {scope, in, out, {window, window}, options};
}

namespace {

Tensor nearest_along(const Tensor& x, int64_t axis, int64_t to) {
  const int64_t from = x.dim(axis);
  if (from == to) return x;
  std::vector<int64_t> places;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i)
    places.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale)), from - 1));
  return gather(x, Tensor::from(places, {to}), axis);
}

}  // namespace

Tensor resize_nearest(const Tensor& x, int64_t height, int64_t width) {
  const int64_t B = x.dim(0), C = x.dim(1), H = x.dim(2), W = x.dim(3);
  if (height == 2 * H && width == 2 * W) {
    const Tensor spread = broadcast_to(reshape(x, {B, C, H, 1, W, 1}), {B, C, H, 2, W, 2});
    return reshape(spread, {B, C, height, width});
  }
  return nearest_along(nearest_along(x, 2, height), 3, width);
}

DiffusionDownsample::DiffusionDownsample(const Scope& scope, int64_t channels, int64_t padding)
    : padding_(padding), conv_(torch_convolution(scope / "conv", channels, channels, 3, 2, padding == 1)) {
  if (padding != 0 && padding != 1)
    fail(ErrorKind::kUnsupported, "{}: downsample_padding: expected 0 or 1, found {}", scope.path(), padding);
}

Tensor DiffusionDownsample::operator()(const Tensor& x, const ForwardContext& context) const {
  return conv_(padding_ == 0 ? pad(x, {0, 0, 0, 0}, {0, 0, 1, 1}) : x, context);
}

ResidualBlock::ResidualBlock(const Scope& scope, int64_t in, int64_t out, const ResidualOptions& options)
    : options_(options),
      norm1_(scope / "norm1", options.groups, in, options.epsilon),
      conv1_(torch_convolution(scope / "conv1", in, out, 3)),
      norm2_(scope / "norm2", options.groups, out, options.epsilon),
      dropout_(options.dropout),
      conv2_(torch_convolution(scope / "conv2", out, out, 3)) {
  if (options.time_channels > 0)
    time_emb_proj_ =
        torch_linear(scope / "time_emb_proj", options.time_channels, options.scales_by_time ? 2 * out : out);
  if (in != out) conv_shortcut_ = torch_convolution(scope / "conv_shortcut", in, out, 1);
}

Tensor ResidualBlock::resampled(const Tensor& x) const {
  using enum ResidualOptions::Resampling;
  if (options_.resampling == kUp) return resize_nearest(x, 2 * x.dim(2), 2 * x.dim(3));
  return options_.resampling == kDown ? average_pool(x, {.window = {2, 2}, .strides = {2, 2}}) : x;
}

Tensor ResidualBlock::operator()(Tensor x, const Tensor& time, ForwardContext& context) const {
  Tensor h = activation(options_.activation, norm1_(x, context));
  h = conv1_(resampled(h), context);
  x = resampled(x);
  Tensor told;
  if (time_emb_proj_) {
    told = (*time_emb_proj_)(activation(options_.activation, time), context);
    told = reshape(told, {told.dim(0), told.dim(1), 1, 1});
  }
  if (told.defined() && !options_.scales_by_time) h = h + told;
  h = norm2_(h, context);
  if (told.defined() && options_.scales_by_time) {
    const int64_t C = h.dim(1);
    h = h * (1.0 + slice(told, 1, 0, C)) + slice(told, 1, C, 2 * C);
  }
  h = conv2_(dropout_(activation(options_.activation, h), context), context);
  if (conv_shortcut_) x = (*conv_shortcut_)(x, context);
  const Tensor sum = x + h;
  return options_.output_scale == 1 ? sum : sum * (1 / options_.output_scale);
}

}  // namespace transom
