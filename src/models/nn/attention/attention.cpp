// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/attention.h"

#include <cmath>

#include "base/error.h"
#include "graph/ops/attention/ranged_attention.h"
#include "graph/ops/attention/sink_attention.h"
#include "models/nn/attention/cache.h"
#include "models/nn/attention/texts_in_rows.h"

namespace transom {
Tensor additive_where(const Tensor& visible, DType dtype) {
  return select(visible, full(visible.shape(), 0, dtype), full(visible.shape(), kMaskedScore, dtype));
}

Tensor additive_mask(const Tensor& attention_mask, DType dtype) {
  if (!attention_mask.defined()) return {};
  Tensor mask = attention_mask;
  if (mask.rank() == 2) mask = unsqueeze(unsqueeze(mask, 1), 1);
  else if (mask.rank() == 3) mask = unsqueeze(mask, 1);
  else if (mask.rank() != 4) fail("attention_mask: expected [batch, length], found {}", to_string(mask.shape()));
  else if (is_floating(mask.dtype())) return cast(mask, dtype);
  const Tensor one = full(mask.shape(), 1, dtype);
  return (one - cast(mask, dtype)) * kMaskedScore;
}

namespace {

// With what hides other texts of a row: ranges [B, T, 2] of the keys of each query's own, as many as queries.
Tensor bias_in_ranges(const Tensor& bias, const Tensor& ranges) {
  const int64_t B = ranges.dim(0), T = ranges.dim(1);
  const Shape all = {B, 1, T, T};
  const Tensor key = iota(all, 3);
  const auto bound = [&](int64_t side) {
    return broadcast_to(reshape(slice(ranges, 2, side, side + 1), {B, 1, T, 1}), all);
  };
  const Tensor places = additive_where(logical_and(greater_equal(key, bound(0)), less(key, bound(1))));
  return bias.defined() ? maximum(bias + places, constant(kMaskedScore)) : places;
}

Tensor attention_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& sinks,
                            const AttentionOptions& options, const Tensor& key, double probability,
                            const ForwardContext& context) {
  const Tensor all = context.texts ? bias_in_ranges(bias, context.texts->ranges) : bias;
  return sink_attention(q, k, v, all, sinks, options, context.computing, key, probability);
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& options,
                 const Dropout& dropout, ForwardContext& context, const Tensor& sinks) {
  const bool drops = dropout.applies(context);
  const Tensor key = drops ? next_random_key(context) : Tensor();
  const double probability = drops ? dropout.probability() : 0;
  const Tensor mixed = sinks.defined() ? attention_with_sinks(q, k, v, bias, sinks, options, key, probability, context)
                       : context.texts ? ranged_attention(q, k, v, bias, context.texts->ranges, options,
                                                          context.computing, key, probability)
                                       : attention(q, k, v, bias, options, context.computing, key, probability);
  return reshape(mixed, {q.dim(0), q.dim(1), q.dim(2) * v.dim(3)});
}

Tensor cached_attention(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                        const AttentionOptions& options, const Dropout& dropout, ForwardContext& context,
                        const Tensor& sinks) {
  if (!context.cache) return attention(q, k, v, bias, options, dropout, context, sinks);
  if (const Tensor mixed = context.cache->attend(layer, q, k, v, bias, options, context.computing, sinks);
      mixed.defined())
    return reshape(mixed, {q.dim(0), q.dim(1), q.dim(2) * v.dim(3)});
  const KeysAndValues seen = context.cache->append(layer, k, v);
  if (context.cache->reads_prompt()) {
    AttentionOptions by_place = options;
    by_place.causal = true;
    const Tensor padding = context.cache->of_padding();
    return attention(q, seen.keys, seen.values, bias.defined() ? bias + padding : padding, by_place, dropout, context,
                     sinks);
  }
  // Places beyond the present tokens are hidden by the mask of positions, which are not known when this is compiled.
  AttentionOptions by_bias = options;
  by_bias.causal = false, by_bias.sliding_window = 0;
  const Tensor visible = context.cache->visible(q.dim(1), options.sliding_window);
  const Tensor all = bias.defined() ? bias + visible : visible;
  return attention(q, seen.keys, seen.values, all, by_bias, dropout, context, sinks);
}

Tensor multi_head_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, const Tensor& mask,
                            const Dropout& dropout, ForwardContext& context) {
  const int64_t B = q.dim(0), T = q.dim(1), S = k.dim(1), d = q.dim(2) / heads;
  return attention(reshape(q, {B, T, heads, d}), reshape(k, {B, S, heads, d}), reshape(v, {B, S, heads, d}), mask,
                   {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false}, dropout, context);
}

}  // namespace transom
