// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/nn/layers.h"

namespace transom {

// What is added to attention scores: 0 where attention_mask is 1, the lowest float where it is 0. The mask is [B, T] or
// [B, T, T] of any type, or [B, 1, T, T], which is taken as additive already if it is floating, as Transformers does.
// The result broadcasts to [B, H, T, T]. Empty for an empty mask.
Tensor additive_mask(const Tensor& attention_mask, DType dtype = DType::kFloat32);

// What is added to scores that nobody may see: 0 where `visible` (bool) holds.
Tensor additive_where(const Tensor& visible, DType dtype = DType::kFloat32);

// attention of transom/ops.h with the dropout of training, to the own text alone where rows have several
// (ForwardContext::texts). Where sinks [H] are defined, each head has one more score, which has no value
// (graph/ops/attention/sink_attention.h). -> [B, T, H e]
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& options,
                 const Dropout& dropout, ForwardContext& context, const Tensor& sinks = {});

// The self-attention of a decoder's layer: with the context's cache, keys and values of earlier tokens take part, and
// `bias` then broadcasts to [B, H, T, S] for the S places of the cache (KeyValueCache::places).
Tensor cached_attention(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                        const AttentionOptions& options, const Dropout& dropout, ForwardContext& context,
                        const Tensor& sinks = {});

// Attention of heads that lie side by side, each query seeing all keys: q, k, v [B, T, H d], additive mask or empty ->
// [B, T, H d].
Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, const Tensor& mask,
                            const Dropout& dropout, ForwardContext& context);

}  // namespace transom
