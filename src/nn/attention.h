// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/layers.h"

namespace transom {

// What is added to attention scores: 0 where attention_mask is 1, the lowest float where it is 0. The mask is [B, T] or
// [B, T, T] of any type, or [B, 1, T, T], which is taken as additive already if it is floating, as Transformers does.
// The result broadcasts to [B, H, T, T]. Empty for an empty mask.
Tensor additive_mask(const Tensor& attention_mask, DType dtype = DType::kFloat32);

// Scaled dot-product attention of heads that lie side by side: q, k, v [B, T, H d], additive mask or empty -> [B, T, H
// d].
Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, const Tensor& mask,
                            const Dropout& dropout, ForwardContext& context);

}  // namespace transom
