// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/families/vits/vits_parts.h"
#include "models/nn/layers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Attention with vectors for the distance of near tokens (Shaw et al., 2018), which all heads share.
class VitsAttention {
 public:
  VitsAttention(const Scope& scope, const VitsConfig& c)
      : heads_(c.num_attention_heads),
        window_(c.window_size),
        k_proj_(scope / "k_proj", c.hidden_size, c.hidden_size, c.new_weights(c.use_bias)),
        v_proj_(scope / "v_proj", c.hidden_size, c.hidden_size, c.new_weights(c.use_bias)),
        q_proj_(scope / "q_proj", c.hidden_size, c.hidden_size, c.new_weights(c.use_bias)),
        out_proj_(scope / "out_proj", c.hidden_size, c.hidden_size, c.new_weights(c.use_bias)),
        dropout_(c.attention_dropout) {
    const int64_t d = c.hidden_size / heads_;
    const Initial initial = Initial::normal(1 / std::sqrt(static_cast<double>(d)));
    near_keys_ = scope.parameter("emb_rel_k", {1, 2 * window_ + 1, d}, initial);
    near_values_ = scope.parameter("emb_rel_v", {1, 2 * window_ + 1, d}, initial);
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    const int64_t B = x.dim(0), T = x.dim(1), d = x.dim(2) / heads_;
    const auto split = [&](const Tensor& y) { return permute(reshape(y, {B, T, heads_, d}), {0, 2, 1, 3}); };
    const Tensor q = split(q_proj_(x, context)) / std::sqrt(static_cast<double>(d));
    const Tensor k = split(k_proj_(x, context)), v = split(v_proj_(x, context));
    Tensor scores = dot_general(q, k, {{0, 1}, {0, 1}, {3}, {3}}, context.computing);  // [B, H, T, T]
    const Tensor near = dot_general(q, squeeze(near_keys_->value, 0), {{}, {}, {3}, {1}}, context.computing);
    scores = scores + from_distances(near);
    scores = cast(scores, DType::kFloat32);
    if (mask.defined()) scores = scores + mask;
    const Tensor chances = dropout_(cast(softmax(scores, context.computing), v.dtype()), context);
    Tensor seen = dot_general(chances, v, {{0, 1}, {0, 1}, {3}, {2}}, context.computing);  // [B, H, T, d]
    seen = seen +
           dot_general(by_distances(chances), squeeze(near_values_->value, 0), {{}, {}, {3}, {0}}, context.computing);
    return out_proj_(reshape(permute(seen, {0, 2, 1, 3}), {B, T, heads_ * d}), context);
  }

 private:
  // [B, H, T, 2 w + 1], by how far a key stands behind its query -> [B, H, T, T], by the key; 0 where it stands
  // further. In rows that are shorter by one each begins one place later.
  Tensor from_distances(const Tensor& near) const {
    const int64_t B = near.dim(0), H = near.dim(1), T = near.dim(2), all = T + 2 * window_ + 1;
    const Tensor long_rows = reshape(pad(near, {0, 0, 0, 0}, {0, 0, 0, T}), {B, H, T * all});
    const Tensor rows = reshape(slice(long_rows, 2, 0, T * (all - 1)), {B, H, T, all - 1});
    return slice(rows, 3, window_, window_ + T);
  }
  // The other way.
  Tensor by_distances(const Tensor& keys) const {
    const int64_t B = keys.dim(0), H = keys.dim(1), T = keys.dim(2), all = T + 2 * window_ + 1;
    const Tensor short_rows = reshape(pad(keys, {0, 0, 0, window_}, {0, 0, 0, window_}), {B, H, T * (all - 1)});
    const Tensor rows = reshape(pad(short_rows, {0, 0, 0}, {0, 0, T}), {B, H, T, all});
    return slice(rows, 3, 0, 2 * window_ + 1);
  }

  int64_t heads_, window_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
  Dropout dropout_;
  std::shared_ptr<Parameter> near_keys_, near_values_;
};

}  // namespace

class VitsLayer {
 public:
  VitsLayer(const Scope& scope, const VitsConfig& c)
      : activation_(c.hidden_act),
        attention_(scope / "attention", c),
        layer_norm_(scope / "layer_norm", c.hidden_size, c.layer_norm_eps),
        conv_1_(
            same_length_convolution(scope / "feed_forward" / "conv_1", c.hidden_size, c.ffn_dim, c.ffn_kernel_size)),
        conv_2_(
            same_length_convolution(scope / "feed_forward" / "conv_2", c.ffn_dim, c.hidden_size, c.ffn_kernel_size)),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout),
        activation_dropout_(c.activation_dropout),
        layerdrop_(c.layerdrop) {}

  // x [B, T, D], counted [B, 1, T]
  Tensor operator()(const Tensor& x, const Tensor& counted, const Tensor& mask, ForwardContext& context) const {
    const Tensor h = layer_norm_(x + dropout_(attention_(x, mask, context), context), context);
    Tensor y = conv_1_(permute(h, {0, 2, 1}) * counted, context);
    y = activation_dropout_(activation(activation_, y), context);
    y = permute(conv_2_(y * counted, context) * counted, {0, 2, 1});
    return layerdrop_(x, final_layer_norm_(h + dropout_(y, context), context), context);
  }

 private:
  std::string activation_;
  VitsAttention attention_;
  LayerNorm layer_norm_;
  Convolution conv_1_, conv_2_;
  LayerNorm final_layer_norm_;
  Dropout dropout_, activation_dropout_;
  LayerDrop layerdrop_;
};

VitsTextEncoder::VitsTextEncoder(const Scope& scope, const VitsConfig& c)
    : c_(c),
      embed_tokens_(scope / "embed_tokens", c.vocab_size, c.hidden_size, c.initializer_range, c.padding),
      project_(same_length_convolution(scope / "project", c.hidden_size, 2 * c.flow_size, 1)) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    layers_.push_back(std::make_shared<VitsLayer>(scope / "encoder" / "layers" / i, c));
}

VitsText VitsTextEncoder::operator()(const Tensor& input_ids, const Tensor& counted, const Tensor& mask,
                                     ForwardContext& context) const {
  const Tensor by_time = permute(counted, {0, 2, 1});
  Tensor x = embed_tokens_(input_ids, context) * std::sqrt(static_cast<double>(c_.hidden_size)) * by_time;
  for (const auto& layer : layers_) x = (*layer)(x, counted, mask, context);
  x = permute(x * by_time, {0, 2, 1});
  const Tensor both = project_(x, context) * counted;
  return {x, slice(both, 1, 0, c_.flow_size), slice(both, 1, c_.flow_size, 2 * c_.flow_size)};
}

}  // namespace transom
