// SPDX-License-Identifier: Apache-2.0
#include "models/families/qwen_vl/qwen_vl_tower.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/nn/attention/attention.h"
#include "models/shared/vision_inputs.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kQwenPatchMost = 1 << 10;  // of what is multiplied to the numbers of a patch

Linear::Options qwen_vision_linear(const QwenVisionConfig& c) { return {.deviation = c.deviation}; }

std::vector<Linear> qwen_feed_forward(const Scope& scope, const QwenVisionConfig& c) {
  std::vector<Linear> layers;
  const auto add = [&](const char* name, int64_t in, int64_t out) {
    layers.emplace_back(scope / name, in, out, qwen_vision_linear(c));
  };
  if (c.gated) add("gate_proj", c.width, c.feed_forward), add("up_proj", c.width, c.feed_forward);
  else add(c.up.c_str(), c.width, c.feed_forward);
  add(c.gated ? "down_proj" : c.down.c_str(), c.feed_forward, c.width);
  return layers;
}

}  // namespace

int64_t qwen_vision_number(const Config& config, const char* field, int64_t otherwise, int64_t most) {
  return positive(config, field, otherwise, most);
}

QwenVisionConfig qwen_vision_common(const Config& config) {
  QwenVisionConfig c{};
  c.depth = qwen_vision_number(config, "depth", 32);
  c.heads = qwen_vision_number(config, "num_heads", 16);
  c.channels = qwen_vision_number(config, "in_channels", 3, kQwenPatchMost);
  c.patch = qwen_vision_number(config, "patch_size", 14, kQwenPatchMost);
  c.frames = qwen_vision_number(config, "temporal_patch_size", 2, kQwenPatchMost);
  c.merge = qwen_vision_number(config, "spatial_merge_size", 2, kQwenPatchMost);
  c.deviation = config.get_float("initializer_range", 0.02);
  c.theta = 10000;
  if (config.has("rope_parameters")) {
    const Config rope = config.get_object("rope_parameters");
    const std::string type = rope.get_string("rope_type", "axial");
    if (type != "axial")
      fail(ErrorKind::kUnsupported, "{}: rope_type: expected \"axial\", found {}", rope.where(), quoted(type));
    c.theta = rope.get_float("rope_theta", 10000);
  }
  config.get_int("in_chans", 3);             // of older files, which nothing reads
  config.get_int("spatial_patch_size", 14);  // likewise
  return c;
}

void check_qwen_heads(const QwenVisionConfig& c, const Config& config) {
  if (c.width % c.heads != 0 || c.width / c.heads % 4 != 0)
    fail("{}: num_heads: expected heads of a multiple of 4 numbers, found {} of {}", config.where(), c.heads, c.width);
  if (!(c.theta > 0)) fail("{}: rope_theta: expected a number above 0, found {}", config.where(), c.theta);
}

QwenPatchPlaces qwen_patch_places(const QwenVisionConfig& c, int64_t height, int64_t width) {
  QwenPatchPlaces places;
  const int64_t m = c.merge, side = std::max<int64_t>(c.window, 1), in_a_row = (width / m + side - 1) / side;
  for (int64_t y = 0; y < height; y += m)
    for (int64_t x = 0; x < width; x += m)
      for (int64_t i = 0; i < m * m; ++i) {
        places.rows.push_back(y + i / m);
        places.columns.push_back(x + i % m);
        places.windows.push_back(y / m / side * in_a_row + x / m / side);
      }
  return places;
}

RotaryAngles qwen_vision_angles(const RotaryEmbedding& rotary, const QwenPatchPlaces& places) {
  const auto n = static_cast<int64_t>(places.rows.size());
  const RotaryAngles down = rotary(Tensor::from(places.rows, {1, n})),
                     across = rotary(Tensor::from(places.columns, {1, n}));
  return {concatenate({down.cosine, across.cosine}, 3), concatenate({down.sine, across.sine}, 3)};
}

QwenVisionConfig qwen2_vision_config(const Config& config) {
  QwenVisionConfig c = qwen_vision_common(config);
  c.width = qwen_vision_number(config, "embed_dim", 1280);
  c.out = qwen_vision_number(config, "hidden_size", 3584);
  c.activation = config.get_string("hidden_act", "quick_gelu");
  const double ratio = config.get_float("mlp_ratio", 4);
  c.feed_forward = static_cast<int64_t>(std::clamp(static_cast<double>(c.width) * ratio, 0.0, 1e9));
  if (c.feed_forward < 1) fail("{}: mlp_ratio: expected a number above 0, found {}", config.where(), ratio);
  check_qwen_heads(c, config);
  return c;
}

QwenVisionConfig qwen2_5_vision_config(const Config& config) {
  QwenVisionConfig c = qwen_vision_common(config);
  c.gated = true;
  c.width = qwen_vision_number(config, "hidden_size", 3584);
  c.out = qwen_vision_number(config, "out_hidden_size", 3584);
  c.feed_forward = qwen_vision_number(config, "intermediate_size", 3420);
  c.activation = config.get_string("hidden_act", "silu");
  const int64_t window = qwen_vision_number(config, "window_size", 112);
  c.window = window / c.merge / c.patch;
  if (c.window < 1)
    fail("{}: window_size: expected at least {} pixels, a merged row, found {}", config.where(), c.merge * c.patch,
         window);
  c.see_all = config.has("fullatt_block_indexes") ? config.get_ints("fullatt_block_indexes")
                                                  : std::vector<int64_t>{7, 15, 23, 31};
  config.get_float("tokens_per_second", 4);  // of videos
  check_qwen_heads(c, config);
  return c;
}

QwenVisionNorm::QwenVisionNorm(const Scope& scope, const QwenVisionConfig& c) {
  constexpr double kEpsilon = 1e-6;
  if (c.gated) rms_.emplace(scope, c.width, kEpsilon);
  else layer_.emplace(scope, c.width, kEpsilon);
}

Tensor QwenVisionNorm::operator()(const Tensor& x, const ForwardContext& context) const {
  return rms_ ? (*rms_)(x, context) : (*layer_)(x, context);
}

QwenVisionBlock::QwenVisionBlock(const Scope& scope, const QwenVisionConfig& c)
    : path_(scope.path()),
      heads_(c.heads),
      activation_(c.activation),
      norm1_(scope / "norm1", c),
      norm2_(scope / "norm2", c),
      qkv_(scope / "attn" / "qkv", c.width, 3 * c.width, qwen_vision_linear(c)),
      proj_(scope / "attn" / "proj", c.width, c.width, qwen_vision_linear(c)),
      layers_(qwen_feed_forward(scope / "mlp", c)) {}

Tensor QwenVisionBlock::operator()(const Tensor& x, const RotaryAngles& angles, const Tensor& mask,
                                   ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor h = x + attended(norm1_(x, context), angles, mask, context);
  return h + fed_forward(norm2_(h, context), context);
}

Tensor QwenVisionBlock::attended(const Tensor& x, const RotaryAngles& angles, const Tensor& mask,
                                 ForwardContext& context) const {
  const int64_t n = x.dim(1), d = x.dim(2) / heads_;
  const Tensor all = reshape(qkv_(x, context), {1, n, 3, heads_, d});
  const auto part = [&](int64_t i) { return squeeze(slice(all, 2, i, i + 1), 2); };
  const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false};
  return proj_(attention(rotate(part(0), angles), rotate(part(1), angles), part(2), mask, options, Dropout(0), context),
               context);
}

Tensor QwenVisionBlock::fed_forward(const Tensor& x, ForwardContext& context) const {
  const Tensor first = activation(activation_, layers_[0](x, context));
  if (layers_.size() == 2) return layers_[1](first, context);
  return layers_[2](first * layers_[1](x, context), context);
}

QwenVisionTower::QwenVisionTower(const Scope& scope, const QwenVisionConfig& c)
    : QwenTower(c),
      patch_weight_(
          (scope / "patch_embed" / "proj")
              .parameter("weight", {c.width, c.channels, c.frames, c.patch, c.patch}, Initial::normal(c.deviation))),
      ln_q_(scope / "merger" / "ln_q", c),
      inner_(scope / "merger" / "mlp" / 0, c.width * c.merge * c.merge, c.width * c.merge * c.merge,
             qwen_vision_linear(c)),
      outer_(scope / "merger" / "mlp" / 2, c.width * c.merge * c.merge, c.out, qwen_vision_linear(c)),
      rotary_({.width = c.width / c.heads / 2, .theta = c.theta}) {
  for (int64_t i = 0; i < c.depth; ++i) blocks_.emplace_back(scope / "blocks" / i, c);
}

Tensor QwenVisionTower::operator()(const Tensor& patches, int64_t height, int64_t width,
                                   ForwardContext& context) const {
  const int64_t n = height * width;
  const QwenPatchPlaces places = qwen_patch_places(c_, height, width);
  const RotaryAngles angles = qwen_vision_angles(rotary_, places);
  Tensor mask;
  if (c_.window > 0) {
    const Shape all{1, 1, n, n};
    const Tensor own = broadcast_to(Tensor::from(places.windows, {1, 1, n, 1}), all),
                 other = broadcast_to(Tensor::from(places.windows, {1, 1, 1, n}), all);
    mask = additive_where(equal(own, other));
  }
  Tensor x =
      unsqueeze(linear(patches, reshape(patch_weight_->value, {c_.width, c_.numbers()}), {}, context.computing), 0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const bool all = std::find(c_.see_all.begin(), c_.see_all.end(), static_cast<int64_t>(i)) != c_.see_all.end();
    x = blocks_[i](x, angles, all ? Tensor() : mask, context);
  }
  const int64_t block = c_.merge * c_.merge;
  const Tensor merged = reshape(ln_q_(x, context), {n / block, block * c_.width});
  return outer_(gelu(inner_(merged, context)), context);
}

}  // namespace transom
