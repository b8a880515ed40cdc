// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <cmath>

#include "base/error.h"
#include "nn/cache.h"

namespace transom {
namespace {

// The lowest bfloat16: finite in every type that scores are computed in, so that a row with nothing to see stays
// finite.
constexpr double kMasked = -3.3895313892515355e38;

// Which keys the last T of S tokens see: [T, S].
Tensor visible_before(int64_t T, int64_t S, int64_t sliding_window) {
  const Tensor query = iota({T, S}, 0) + static_cast<double>(S - T), key = iota({T, S}, 1);
  const Tensor causal = less_equal(key, query);
  return sliding_window > 0 ? logical_and(causal, greater(key, query - static_cast<double>(sliding_window))) : causal;
}

// The given bias and the mask of places together. What both hide must not be lower than what one hides: a row that sees
// nothing is then the mean of all values, as in Transformers.
Tensor all_biases(const Tensor& bias, int64_t T, int64_t S, const AttentionOptions& options) {
  if (!options.causal || (T == 1 && options.sliding_window == 0)) return bias;
  const Tensor places = additive_where(visible_before(T, S, options.sliding_window));
  return bias.defined() ? maximum(cast(bias, DType::kFloat32) + places, constant(kMasked)) : places;
}

}  // namespace

Tensor additive_where(const Tensor& visible, DType dtype) {
  return select(visible, full(visible.shape(), 0, dtype), full(visible.shape(), kMasked, dtype));
}

Tensor additive_mask(const Tensor& attention_mask, DType dtype) {
  if (!attention_mask.defined()) return {};
  Tensor mask = attention_mask;
  if (mask.rank() == 2) mask = unsqueeze(unsqueeze(mask, 1), 1);
  else if (mask.rank() == 3) mask = unsqueeze(mask, 1);
  else if (mask.rank() != 4) fail("attention_mask: expected [batch, length], found {}", to_string(mask.shape()));
  else if (is_floating(mask.dtype())) return cast(mask, dtype);
  const Tensor one = full(mask.shape(), 1, dtype);
  return (one - cast(mask, dtype)) * kMasked;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& options,
                 const Dropout& dropout, ForwardContext& context) {
  const int64_t B = q.dim(0), T = q.dim(1), H = q.dim(2), d = q.dim(3), S = k.dim(1), G = k.dim(2), e = v.dim(3);
  if (G == 0 || H % G != 0) fail("attention: {} heads of queries do not share {} heads of keys", H, G);
  Tensor scores;  // [B, H, T, S]
  if (H == G) {
    scores = dot_general(q, k, {{0, 2}, {0, 2}, {3}, {3}});
  } else {
    const Tensor grouped = permute(reshape(q, {B, T, G, H / G, d}), {0, 2, 3, 1, 4});
    scores = reshape(dot_general(grouped, k, {{0, 1}, {0, 2}, {4}, {3}}), {B, H, T, S});
  }
  if (options.scale != 1) scores = scores * options.scale;
  if (options.soft_cap > 0) scores = tanh(scores * (1 / options.soft_cap)) * options.soft_cap;
  if (const Tensor hidden = all_biases(bias, T, S, options); hidden.defined())
    scores = scores + cast(hidden, scores.dtype());
  const Tensor weights = cast(dropout(softmax(scores), context), v.dtype());
  const Tensor mixed =
      H == G ? dot_general(weights, v, {{0, 1}, {0, 2}, {3}, {1}})  // [B, H, T, e]
             : reshape(dot_general(reshape(weights, {B, G, H / G, T, S}), v, {{0, 1}, {0, 2}, {4}, {1}}), {B, H, T, e});
  return reshape(permute(mixed, {0, 2, 1, 3}), {B, T, H * e});
}

Tensor cached_attention(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                        const AttentionOptions& options, const Dropout& dropout, ForwardContext& context) {
  if (!context.cache) return attention(q, k, v, bias, options, dropout, context);
  const KeysAndValues seen = context.cache->append(layer, k, v);
  // Places beyond the present tokens are hidden by the mask of positions, which are not known when this is compiled.
  AttentionOptions by_bias = options;
  by_bias.causal = false, by_bias.sliding_window = 0;
  const Tensor visible = context.cache->visible(q.dim(1), options.sliding_window);
  const Tensor all = bias.defined() ? bias + visible : visible;
  return attention(q, seen.keys, seen.values, all, by_bias, dropout, context);
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, const Tensor& mask,
                            const Dropout& dropout, ForwardContext& context) {
  const int64_t B = q.dim(0), T = q.dim(1), S = k.dim(1), d = q.dim(2) / heads;
  return attention(reshape(q, {B, T, heads, d}), reshape(k, {B, S, heads, d}), reshape(v, {B, S, heads, d}), mask,
                   {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false}, dropout, context);
}

}  // namespace transom
