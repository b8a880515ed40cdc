// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/families/sam/sam_parts.h"
#include "models/nn/attention/attention.h"
#include "models/nn/vision/windows.h"

namespace transom {

SamMlp::SamMlp(const Scope& scope, int64_t width, int64_t inner, const std::string& act, double deviation)
    : activation_(act),
      lin1_(scope / "lin1", width, inner, {.deviation = deviation}),
      lin2_(scope / "lin2", inner, width, {.deviation = deviation}) {}

Tensor SamMlp::operator()(const Tensor& x, ForwardContext& context) const {
  return lin2_(activation(activation_, lin1_(x, context)), context);
}

namespace {

// Attention inside a square of side x side places, with scores of how far rows and columns are apart (Li et al., 2022).
class SamVisionAttention {
 public:
  SamVisionAttention(const Scope& scope, const SamVisionConfig& c, int64_t side)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        side_(side),
        qkv_(scope / "qkv", c.hidden_size, 3 * c.hidden_size, {.bias = c.qkv_bias, .deviation = c.initializer_range}),
        proj_(scope / "proj", c.hidden_size, c.hidden_size, {.deviation = c.initializer_range}),
        dropout_(c.attention_dropout) {
    if (!c.use_rel_pos) return;
    const Shape shape{2 * side - 1, c.hidden_size / c.num_attention_heads};
    rel_pos_h_ = scope.parameter("rel_pos_h", shape, Initial::zeros());
    rel_pos_w_ = scope.parameter("rel_pos_w", shape, Initial::zeros());
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {  // [W, side side, D] -> the same
    const int64_t W = x.dim(0), T = x.dim(1), D = x.dim(2), d = D / heads_;
    Tensor attended;
    {
      const ModuleScope module(path_);
      const Tensor parts = reshape(qkv_(x, context), {W, T, 3, heads_, d});
      const auto part = [&](int64_t i) { return squeeze(slice(parts, 2, i, i + 1), 2); };
      const Tensor q = part(0);
      attended = attention(q, part(1), part(2), bias_of(q, context.computing),
                           {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false}, dropout_, context);
    }
    return proj_(reshape(attended, {W, T, D}), context);
  }

 private:
  // Row i of place y, column k of place x: the vector for y - k, [side, side, d].
  Tensor distances(const std::shared_ptr<Parameter>& table) const {
    std::vector<int64_t> rows;
    for (int64_t y = 0; y < side_; ++y)
      for (int64_t k = 0; k < side_; ++k) rows.push_back(y - k + side_ - 1);
    return reshape(gather(table->value, Tensor::from(rows, {side_ * side_}), 0), {side_, side_, table->value.dim(1)});
  }

  // Of queries [W, T, heads, d]: what is added to their scores, [W, heads, T, T].
  Tensor bias_of(const Tensor& q, const Computing& computing) const {
    if (!rel_pos_h_) return {};
    const int64_t W = q.dim(0), n = side_;
    const Tensor places = reshape(q, {W, n, n, heads_, q.dim(3)});
    // [y, W, x, heads, k] and [x, W, y, heads, k] -> [W, heads, y, x, k]
    const Tensor of_rows = dot_general(places, cast(distances(rel_pos_h_), q.dtype()), {{1}, {0}, {4}, {2}}, computing);
    const Tensor of_columns =
        dot_general(places, cast(distances(rel_pos_w_), q.dtype()), {{2}, {0}, {4}, {2}}, computing);
    const Tensor sum =
        unsqueeze(permute(of_rows, {1, 3, 0, 2, 4}), 5) + unsqueeze(permute(of_columns, {1, 3, 2, 0, 4}), 4);
    return reshape(sum, {W, heads_, n * n, n * n});
  }

  std::string path_;
  int64_t heads_, side_;
  Linear qkv_, proj_;
  std::shared_ptr<Parameter> rel_pos_h_, rel_pos_w_;  // null: none
  Dropout dropout_;
};

}  // namespace

class SamVisionLayer {
 public:
  SamVisionLayer(const Scope& scope, const SamVisionConfig& c, int64_t window)
      : window_(window),
        layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
        attention_(scope / "attn", c, window > 0 ? window : c.grid()),
        layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
        mlp_(scope / "mlp", c.hidden_size, c.mlp_dim, c.hidden_act, c.initializer_range) {}

  Tensor operator()(const Tensor& x, const Tensor& /*mask*/, ForwardContext& context) const {  // [B, h, w, D]
    const int64_t B = x.dim(0), h = x.dim(1), w = x.dim(2), D = x.dim(3);
    Tensor y = layer_norm1_(x, context);
    if (window_ == 0) {
      y = reshape(attention_(reshape(y, {B, h * w, D}), context), {B, h, w, D});
    } else {  // places of zeros fill the last windows, and are seen
      const auto filled = [&](int64_t extent) { return (extent + window_ - 1) / window_ * window_; };
      const int64_t height = filled(h), width = filled(w);
      if (height > h || width > w) y = pad(y, {0, 0, 0, 0}, {0, height - h, width - w, 0});
      y = from_windows(attention_(to_windows(y, window_), context), window_, B, {height, width});
      y = slice(slice(y, 1, 0, h), 2, 0, w);
    }
    const Tensor middle = x + y;
    return middle + mlp_(layer_norm2_(middle, context), context);
  }

 private:
  int64_t window_;
  LayerNorm layer_norm1_;
  SamVisionAttention attention_;
  LayerNorm layer_norm2_;
  SamMlp mlp_;
};

SamVisionEncoder::SamVisionEncoder(const Scope& scope, const SamVisionConfig& c)
    : c_(c),
      patches_(scope / "patch_embed" / "projection", c.num_channels, c.hidden_size, {c.patch_size, c.patch_size},
               {.strides = {c.patch_size, c.patch_size}, .deviation = c.initializer_range}),
      conv1_(scope / "neck" / "conv1", c.hidden_size, c.output_channels, {1, 1}, {.bias = false}),
      norm1_(scope / "neck" / "layer_norm1", c.output_channels, 1e-6),
      conv2_(scope / "neck" / "conv2", c.output_channels, c.output_channels, {3, 3}, Convolution::same(3, 1, 1, false)),
      norm2_(scope / "neck" / "layer_norm2", c.output_channels, 1e-6) {
  if (c.use_abs_pos)
    pos_embed_ = scope.parameter("pos_embed", {1, c.grid(), c.grid(), c.hidden_size}, Initial::zeros());
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const bool sees_all = std::count(c.global_attn_indexes.begin(), c.global_attn_indexes.end(), i) > 0;
    layers_.emplace_back(scope / "layers" / i, c, sees_all ? 0 : c.window_size);
  }
}

SamVisionEncoder::~SamVisionEncoder() = default;

EncoderOutput SamVisionEncoder::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor& image = image_input(inputs, c_.num_channels);
  if (size_of(image) != Extents{c_.image_size, c_.image_size})
    fail("pixel_values: expected pictures of {}x{}, found {}x{}", c_.image_size, c_.image_size, image.dim(2),
         image.dim(3));
  Tensor x = permute(patches_(image, context), {0, 2, 3, 1});
  if (pos_embed_) x = x + pos_embed_->value;
  EncoderOutput output = through_layers(layers_, x, Tensor(), context);
  x = permute(output.last_hidden_state, {0, 3, 1, 2});
  x = norm_of_channels(norm1_, conv1_(x, context), context);
  output.last_hidden_state = norm_of_channels(norm2_, conv2_(x, context), context);
  return output;
}

}  // namespace transom
