// SPDX-License-Identifier: Apache-2.0
#include "models/families/timm_fastvit/fastvit_blocks.h"

#include <algorithm>

#include "models/nn/attention/attention.h"
#include "models/nn/vision/channel_norm.h"

namespace transom {
namespace {

constexpr int64_t kFastVitHeadWidth = 32, kFastVitMlpWindow = 7;
constexpr double kFastVitChannelEpsilon = 1e-5, kFastVitDeviation = 0.02;

Convolution::Options fastvit_options(int64_t window, int64_t stride, int64_t groups, bool bias, double deviation = 0) {
  Convolution::Options options = Convolution::same(window, stride, groups, bias);
  options.deviation = deviation;
  return options;
}

Convolution fastvit_convolution(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride,
                                int64_t groups) {
  return {scope, in, out, Axes{window, window}, fastvit_options(window, stride, groups, true)};
}

// Of squeezing: a sixteenth of the channels, rounded; or a fourth, to a multiple of eight.
int64_t fastvit_sixteenth(int64_t channels) { return std::max<int64_t>(1, (channels + 8) / 16); }
int64_t fastvit_fourth(int64_t channels) { return std::max<int64_t>(8, (channels + 16) / 4 / 8 * 8); }

}  // namespace

FastVitConvNorm::FastVitConvNorm(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride,
                                 int64_t groups)
    : conv_(scope / "conv", in, out, Axes{window, window}, Convolution::same(window, stride, groups)),
      bn_(scope / "bn", out) {}

FastVitSqueeze::FastVitSqueeze(const Scope& scope, int64_t channels, int64_t inner)
    : fc1_(scope / "fc1", channels, inner, Axes{1, 1}, {}), fc2_(scope / "fc2", inner, channels, Axes{1, 1}, {}) {}

Tensor FastVitSqueeze::operator()(const Tensor& x, ForwardContext& context) const {
  return x * sigmoid(fc2_(relu(fc1_(mean(x, {2, 3}, true), context)), context));
}

FastVitMobileOne::FastVitMobileOne(const Scope& scope, int64_t in, int64_t out, const Options& o) : acts_(o.acts) {
  if (o.squeezes) squeeze_.emplace(scope / "se", out, fastvit_sixteenth(out));
  if (o.fused) {
    fused_.emplace(fastvit_convolution(scope / "reparam_conv", in, out, o.window, o.stride, o.groups));
    return;
  }
  if (in == out && o.stride == 1) identity_.emplace(scope / "identity", in);
  if (o.has_window) window_.emplace(scope / "conv_kxk" / 0, in, out, o.window, o.stride, o.groups);
  if (o.has_pixels && o.window > 1) pixels_.emplace(scope / "conv_scale", in, out, 1, o.stride, o.groups);
}

Tensor FastVitMobileOne::operator()(const Tensor& x, ForwardContext& context) const {
  Tensor sum;
  const auto add = [&](const Tensor& branch) { sum = sum.defined() ? sum + branch : branch; };
  if (fused_) add((*fused_)(x, context));
  if (pixels_) add((*pixels_)(x, context));
  if (identity_) add((*identity_)(x, context));
  if (window_) add((*window_)(x, context));
  if (squeeze_) sum = (*squeeze_)(sum, context);
  return acts_ ? gelu(sum) : sum;
}

FastVitShrinking::FastVitShrinking(const Scope& scope, const FastVitDesign& d, const FastVitStageDesign& stage,
                                   int64_t in)
    : acts_(d.shrinking_acts), pixels_(scope / "proj" / 1, stage.width, stage.width, {.window = 1, .fused = d.fused}) {
  const Scope first = scope / "proj" / 0;
  const int64_t out = stage.width, stride = d.shrinking_stride;
  constexpr int64_t kSmall = 3;
  if (d.fused) {
    fused_.emplace(fastvit_convolution(first / "reparam_conv", in, out, d.shrinking_window, stride, in));
  } else {
    large_.emplace(first / "large_conv", in, out, d.shrinking_window, stride, in);
    small_.emplace(first / "small_conv", in, out, kSmall, stride, in);
  }
  if (stage.squeezes) squeeze_.emplace(first / "se", out, fastvit_fourth(out));
}

Tensor FastVitShrinking::operator()(const Tensor& x, ForwardContext& context) const {
  Tensor h = fused_ ? (*fused_)(x, context) : (*large_)(x, context) + (*small_)(x, context);
  if (squeeze_) h = (*squeeze_)(h, context);
  return pixels_(acts_ ? gelu(h) : h, context);
}

FastVitScale::FastVitScale(const Scope& scope, int64_t channels, const std::optional<double>& initial) {
  if (initial) gamma_ = scope.parameter("gamma", {channels, 1, 1}, Initial::constant(*initial));
}

Tensor FastVitScale::operator()(const Tensor& x) const { return gamma_ ? x * cast(gamma_->value, x.dtype()) : x; }

// The block of MobileOne less the norm of the map, which is its other part.
struct FastVitBlock::Mixer {
  Mixer(const Scope& scope, const FastVitDesign& d, int64_t width)
      : scale(scope / "layer_scale", width, d.fused ? std::optional<double>() : d.layer_scale) {
    if (d.fused) {
      fused.emplace(fastvit_convolution(scope / "reparam_conv", width, width, d.mixer_window, 1, width));
      return;
    }
    FastVitMobileOne::Options options{.window = d.mixer_window, .groups = width, .acts = false};
    mixer.emplace(scope / "mixer", width, width, options);
    options.has_window = options.has_pixels = false;
    norm.emplace(scope / "norm", width, width, options);
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return fused ? (*fused)(x, context) : x + scale((*mixer)(x, context) - (*norm)(x, context));
  }
  std::optional<Convolution> fused;
  std::optional<FastVitMobileOne> mixer, norm;
  FastVitScale scale;
};

struct FastVitBlock::Attention {
  Attention(const Scope& scope, const FastVitDesign& d, int64_t width, double rate)
      : heads(width / kFastVitHeadWidth),
        qkv(scope / "token_mixer" / "qkv", width, 3 * width, {.bias = false, .deviation = kFastVitDeviation}),
        proj(scope / "token_mixer" / "proj", width, width, {.deviation = kFastVitDeviation}),
        scale(scope / "layer_scale_1", width, d.layer_scale),
        drop_path(rate) {
    if (d.norms_channels) channels.emplace(scope / "norm", width, kFastVitChannelEpsilon);
    else norm.emplace(scope / "norm", width);
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor map = norm ? (*norm)(x, context) : norm_of_channels(*channels, x, context);
    const int64_t B = x.dim(0), C = x.dim(1), N = x.dim(2) * x.dim(3);
    const Tensor all = qkv(permute(reshape(map, {B, C, N}), {0, 2, 1}), context);
    const auto part = [&](int64_t i) { return slice(all, 2, i * C, (i + 1) * C); };
    const Tensor mixed = multi_head_attention(part(0), part(1), part(2), heads, {}, Dropout(0), context);
    const Tensor back = reshape(permute(proj(mixed, context), {0, 2, 1}), x.shape());
    return x + drop_path(scale(back), context);
  }
  int64_t heads;
  std::optional<BatchNorm> norm;
  std::optional<LayerNorm> channels;
  Linear qkv, proj;
  FastVitScale scale;
  DropPath drop_path;
};

FastVitBlock::FastVitBlock(const Scope& scope, const FastVitDesign& d, const FastVitStageDesign& stage,
                           double drop_path)
    : conv_(scope / "mlp" / "conv", stage.width, stage.width, kFastVitMlpWindow, 1, stage.width),
      fc1_(scope / "mlp" / "fc1", stage.width, static_cast<int64_t>(static_cast<double>(stage.width) * stage.mlp_ratio),
           Axes{1, 1}, fastvit_options(1, 1, 1, true, kFastVitDeviation)),
      fc2_(scope / "mlp" / "fc2", static_cast<int64_t>(static_cast<double>(stage.width) * stage.mlp_ratio), stage.width,
           Axes{1, 1}, fastvit_options(1, 1, 1, true, kFastVitDeviation)),
      dropout_(d.proj_drop_rate),
      scale_(scope / (stage.attends ? "layer_scale_2" : "layer_scale"), stage.width, d.layer_scale),
      drop_path_(drop_path) {
  if (stage.attends) attention_ = std::make_shared<Attention>(scope, d, stage.width, drop_path);
  else mixer_ = std::make_shared<Mixer>(scope / "token_mixer", d, stage.width);
}

Tensor FastVitBlock::operator()(const Tensor& x, ForwardContext& context) const {
  const Tensor mixed = attention_ ? (*attention_)(x, context) : (*mixer_)(x, context);
  const Tensor inner = dropout_(gelu(fc1_(conv_(mixed, context), context)), context);
  return mixed + drop_path_(scale_(dropout_(fc2_(inner, context), context)), context);
}

}  // namespace transom
