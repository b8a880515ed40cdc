// SPDX-License-Identifier: Apache-2.0
// Attention of some queries to some of their keys, in a form that can be joined with that to the others.
#pragma once

#include "transom/ops.h"

namespace transom {

// What the scores of each query to some keys are: their largest, and the sum of e^(score - largest); [B, H, T], in f32
// for 16-bit types. These two are the log-sum-exp of the scores, apart: a query whose keys are all hidden (see
// kMaskedScore) keeps the number of its keys in the sum, which a logarithm beside that score would lose.
struct PartialAttention {
  Tensor out;  // [B, T, H, e]: the mean of the values by the weights of these keys alone
  Tensor largest, sum;
};

// Dropout of the weights, as attention to all keys draws it: by the places of these rows, heads, queries and keys in
// [rows, heads, queries, keys] of the whole.
struct PartialDropout {
  Tensor key;  // undefined: none
  double probability = 0;
  Shape whole = {}, at = {};  // heads, queries, keys of the whole; the first row, head, query, key
};

// Query t stands at t + `offset` among these keys, which may be negative or beyond them; `options.causal` and
// `sliding_window` hide keys by these places. `bias` as in attention, or undefined.
PartialAttention partial_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                   const AttentionOptions& options, int64_t offset, const PartialDropout& dropout = {});

// The same queries' attention to the keys of both.
PartialAttention joined(const PartialAttention& a, const PartialAttention& b);

// What the keys of a part contribute to the gradients of attention to all of them, whose `largest` and `sum` are given;
// `shift` is the sum of dy times out over each head, [B, H, T], of the type of `sum`.
struct PartialAttentionGradients {
  Tensor q, k, v;
};
PartialAttentionGradients partial_attention_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& bias, const Tensor& largest, const Tensor& sum,
                                                      const Tensor& shift, const Tensor& dy,
                                                      const AttentionOptions& options, int64_t offset,
                                                      const PartialDropout& dropout = {});

}  // namespace transom
