// SPDX-License-Identifier: Apache-2.0
// The layers that detectors of the DETR kind are made of. B batch, T queries, S places, D hidden.
#pragma once

#include <string>

#include "models/nn/attention/attention.h"
#include "transom/layers.h"

namespace transom {

struct DetrLayerShape {
  int64_t width, heads, inner;
  std::string activation;
  double dropout = 0, attention_dropout = 0, activation_dropout = 0;
  double deviation = 0.02, epsilon = 1e-5;
  bool norms_first = false;  // layers norm what they read, rather than what they give
  // Of RT-DETR's encoder with norms_first: to what its feed-forward layer makes the normed states are added.
  bool adds_normed = false;
};

// x and what `branch` makes of it, normed before the branch or behind the sum.
template <typename Branch>
Tensor detr_residual(const Tensor& x, const LayerNorm& norm, bool norms_first, ForwardContext& context,
                     const Branch& branch) {
  return norms_first ? x + branch(norm(x, context)) : norm(x + branch(x), context);
}

struct DetrAttention {
  DetrAttention(const Scope& scope, const DetrLayerShape& s)
      : path(scope.path()),
        heads(s.heads),
        q_proj(scope / "q_proj", s.width, s.width, {.deviation = s.deviation}),
        k_proj(scope / "k_proj", s.width, s.width, {.deviation = s.deviation}),
        v_proj(scope / "v_proj", s.width, s.width, {.deviation = s.deviation}),
        out_proj(scope / "out_proj", s.width, s.width, {.deviation = s.deviation}),
        dropout(s.attention_dropout) {}
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                    ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path);
      attended = multi_head_attention(q_proj(query, context), k_proj(key, context), v_proj(value, context), heads, mask,
                                      dropout, context);
    }
    return out_proj(attended, context);
  }

  std::string path;
  int64_t heads;
  Linear q_proj, k_proj, v_proj, out_proj;
  Dropout dropout;
};

struct DetrFeedForward {
  DetrFeedForward(const Scope& scope, const DetrLayerShape& s)
      : activation_function(s.activation),
        fc1(scope / "fc1", s.width, s.inner, {.deviation = s.deviation}),
        fc2(scope / "fc2", s.inner, s.width, {.deviation = s.deviation}),
        inner_dropout(s.activation_dropout),
        dropout(s.dropout) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor inner = inner_dropout(activation(activation_function, fc1(x, context)), context);
    return dropout(fc2(inner, context), context);
  }

  std::string activation_function;
  Linear fc1, fc2;
  Dropout inner_dropout, dropout;
};

class DetrEncoderLayer {
 public:
  DetrEncoderLayer(const Scope& scope, const DetrLayerShape& s)
      : norms_first_(s.norms_first),
        adds_normed_(s.adds_normed),
        self_attn_(scope / "self_attn", s),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", s.width, s.epsilon),
        feed_forward_(scope, s),
        final_layer_norm_(scope / "final_layer_norm", s.width, s.epsilon),
        dropout_(s.dropout) {}
  // `positions` may be undefined.
  Tensor operator()(const Tensor& x, const Tensor& positions, const Tensor& mask, ForwardContext& context) const {
    const Tensor seen = detr_residual(x, self_attn_layer_norm_, norms_first_, context, [&](const Tensor& in) {
      const Tensor placed = positions.defined() ? in + positions : in;
      return dropout_(self_attn_(placed, placed, in, mask, context), context);
    });
    if (norms_first_ && adds_normed_) {
      const Tensor normed = final_layer_norm_(seen, context);
      return normed + feed_forward_(normed, context);
    }
    return detr_residual(seen, final_layer_norm_, norms_first_, context,
                         [&](const Tensor& in) { return feed_forward_(in, context); });
  }

 private:
  bool norms_first_, adds_normed_;
  DetrAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  DetrFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
};

}  // namespace transom
