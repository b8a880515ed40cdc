// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/attention_layer.h"

#include "base/error.h"
#include "models/nn/attention/cache.h"
#include "models/nn/attention/texts_in_rows.h"

namespace transom {

Tensor turning_apart(const Tensor& x, int64_t pairs) {
  const int64_t d = x.dim(3), turning = 2 * pairs;
  const Tensor head = turning < d ? slice(x, 3, 0, turning) : x;
  const Tensor beside = reshape(head, {x.dim(0), x.dim(1), x.dim(2), pairs, 2});
  const Tensor apart = reshape(permute(beside, {0, 1, 2, 4, 3}), {x.dim(0), x.dim(1), x.dim(2), turning});
  return turning < d ? concatenate({apart, slice(x, 3, turning, d)}, 3) : apart;
}

namespace {

// The bias of keys that stand less than `window` places from a query of the same T tokens: the lowest score elsewhere.
Tensor within(const Tensor& bias, int64_t T, int64_t window) {
  const Tensor distance = abs(iota({T, T}, 0) - iota({T, T}, 1));
  const Tensor near = less(distance, full({T, T}, static_cast<double>(window), DType::kInt64));
  if (!bias.defined()) return reshape(additive_where(near), {1, 1, T, T});
  const Shape all{bias.dim(0), bias.dim(1), T, T};
  return select(broadcast_to(near, all), broadcast_to(bias, all), broadcast_to(additive_where(near), all));
}

}  // namespace

PlannedAttention::PlannedAttention(const Scope& scope, const DecoderPlan& plan, const AttentionPlan& attention,
                                   int64_t number, size_t block)
    : number_(number),
      block_(block),
      plan_(attention),
      options_{.scale = plan_.scale, .sliding_window = plan_.window, .soft_cap = plan_.soft_cap},
      dropout_(plan_.dropout) {
  const int64_t queries = plan_.heads * plan_.head_size, keys = plan_.key_value_heads * plan_.head_size;
  const Linear::Options inward{.bias = plan_.bias, .deviation = plan.deviation},
      outward{.bias = plan_.output_bias, .deviation = plan.deviation};
  if (plan_.fused) {
    fused_.emplace(scope / plan_.fused->module, plan.width, queries + 2 * keys, inward);
  } else {
    query_.emplace(scope / plan_.query, plan.width, plan_.gated ? 2 * queries : queries, inward);
    if (!plan_.keys_of) {
      key_.emplace(scope / plan_.key, plan.width, keys, inward);
      if (!plan_.values_are_keys) value_.emplace(scope / plan_.value, plan.width, keys, inward);
    }
  }
  output_.emplace(scope / plan_.output, queries, plan.width, outward);
  if (const auto& norms = plan_.head_norms) {
    query_norm_.emplace(scope, norms->query, plan_.heads, plan_.head_size, *norms);
    if (!plan_.keys_of) key_norm_.emplace(scope, norms->key, plan_.key_value_heads, plan_.head_size, *norms);
  }
  if (plan_.value_norm && !plan_.keys_of) {
    NormPlan bare = plan.norm;
    bare.kind = NormPlan::Kind::kRms, bare.weight = bare.bias = false;
    value_norm_.emplace(scope / (plan_.value + "_norm"), plan_.head_size, bare);
  }
  if (!plan_.sinks.empty()) sinks_ = scope.parameter(plan_.sinks, {plan_.heads}, Initial::normal(plan.deviation));
  interleaved_ = plan_.rotary && plan.rotary[*plan_.rotary].interleaved;
}

PlannedAttention::Projected PlannedAttention::placed(const Tensor& x, const AttentionInputs& inputs,
                                                     ForwardContext& context) const {
  Projected made = project(x, context);
  const auto norm_heads = [&](bool after_rotary) {
    if (!query_norm_ || norms_all_heads() || plan_.head_norms->after_rotary != after_rotary) return;
    made.q = (*query_norm_)(made.q, context);
    if (key_norm_) made.k = (*key_norm_)(made.k, context);
  };
  const auto turned = [&](const Tensor& heads) {
    if (!plan_.rotary || !heads.defined()) return heads;
    const RotaryAngles& angles = inputs.angles[*plan_.rotary];
    return rotate(interleaved_ ? turning_apart(heads, angles.cosine.dim(3)) : heads, angles);
  };
  norm_heads(false);
  made.q = turned(made.q), made.k = turned(made.k);
  norm_heads(true);
  if (plan_.growth) made.q = grown(made.q, inputs.in.position_ids);
  if (value_norm_) made.v = (*value_norm_)(made.v, context);
  if (plan_.keys_of) {
    const KeysAndValues& other = inputs.kept->at(*plan_.keys_of);
    made.k = other.keys, made.v = other.values;
  } else if (inputs.kept) {
    inputs.kept->at(block_) = {made.k, made.v};
  }
  return made;
}

Tensor PlannedAttention::operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const {
  const auto [q, k, v, gate] = placed(x, inputs, context);
  const Tensor mixed = attended(q, k, v, inputs, context);
  return (*output_)(gate.defined() ? mixed * sigmoid(reshape(gate, mixed.shape())) : mixed, context);
}

Tensor PlannedAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionInputs& inputs,
                                  ForwardContext& context) const {
  AttentionOptions options = options_;
  if (!inputs.together.empty()) {
    if (sinks_) fail(ErrorKind::kUnsupported, "sinks beside tokens that see each other are not carried out");
    options.causal = false, options.sliding_window = 0;
    const KeysAndValues seen = context.cache ? context.cache->append(number_, k, v) : KeysAndValues{k, v};
    return attention(q, seen.keys, seen.values, inputs.together.at(plan_.window), options, dropout_, context);
  }
  options.causal = inputs.in.causal;
  if (!inputs.in.causal) options.sliding_window = 0;  // a mask says all
  if (!inputs.both_sides || plan_.window == 0)
    return cached_attention(number_, q, k, v, inputs.bias, options, dropout_, context,
                            sinks_ ? sinks_->value : Tensor());
  if (sinks_) fail(ErrorKind::kUnsupported, "sinks beside windows on both sides are not carried out");
  if (const TextsInRows* whole = context.texts) {
    const TextsInRows near = within_window(*whole, plan_.window - 1);
    context.texts = &near;
    const Tensor mixed = attention(q, k, v, inputs.bias, options, dropout_, context);
    context.texts = whole;
    return mixed;
  }
  return attention(q, k, v, within(inputs.bias, q.dim(1), plan_.window), options, dropout_, context);
}

PlannedAttention::Projected PlannedAttention::project(const Tensor& x, ForwardContext& context) const {
  const auto split = [&](const Tensor& y, int64_t heads) {
    return reshape(y, {x.dim(0), x.dim(1), heads, plan_.head_size});
  };
  if (fused_) return parted(clipped((*fused_)(x, context)));
  Tensor q = (*query_)(x, context), k = key_ ? (*key_)(x, context) : Tensor(), gate;
  if (plan_.gated) {
    const Tensor both = split(q, 2 * plan_.heads);
    const Tensor turns = reshape(both, {x.dim(0), x.dim(1), plan_.heads, 2, plan_.head_size});
    gate = squeeze(slice(turns, 3, 1, 2), 3);
    q = reshape(slice(turns, 3, 0, 1), {x.dim(0), x.dim(1), plan_.heads * plan_.head_size});
  }
  if (!key_) {
    if (norms_all_heads()) q = (*query_norm_)(q, context);
    return {split(clipped(q), plan_.heads), {}, {}, gate};
  }
  const Tensor v = value_ ? (*value_)(x, context) : k;
  if (norms_all_heads()) q = (*query_norm_)(q, context), k = (*key_norm_)(k, context);
  return {split(clipped(q), plan_.heads), split(clipped(k), plan_.key_value_heads),
          split(clipped(v), plan_.key_value_heads), gate};
}

// joint [B, T, (H + 2 G) d]
PlannedAttention::Projected PlannedAttention::parted(const Tensor& joint) const {
  const int64_t B = joint.dim(0), T = joint.dim(1), H = plan_.heads, G = plan_.key_value_heads, d = plan_.head_size;
  switch (plan_.fused->layout) {
    case FusedPlan::Layout::kParts: {
      const Tensor all = reshape(joint, {B, T, H + 2 * G, d});
      return {slice(all, 2, 0, H), slice(all, 2, H, H + G), slice(all, 2, H + G, H + 2 * G), {}};
    }
    case FusedPlan::Layout::kGroups: {
      const int64_t each = H / G;
      const Tensor all = reshape(joint, {B, T, G, each + 2, d});
      const auto one = [&](int64_t place) { return reshape(slice(all, 3, place, place + 1), {B, T, G, d}); };
      return {reshape(slice(all, 3, 0, each), {B, T, H, d}), one(each), one(each + 1), {}};
    }
    case FusedPlan::Layout::kBlocks: {
      const int64_t blocks = plan_.fused->blocks;
      const Tensor all = reshape(joint, {B, T, blocks, 3, H * d / blocks});
      const auto one = [&](int64_t place) { return reshape(slice(all, 3, place, place + 1), {B, T, H, d}); };
      return {one(0), one(2), one(1), {}};
    }
  }
  fail(ErrorKind::kInternal, "an unknown layout of a fused layer");
}

Tensor PlannedAttention::clipped(const Tensor& x) const {
  if (plan_.clip == 0) return x;
  return minimum(maximum(x, full(x.shape(), -plan_.clip, x.dtype())), full(x.shape(), plan_.clip, x.dtype()));
}

// q [B, T, H, d], position_ids [B or 1, T]
Tensor PlannedAttention::grown(const Tensor& q, const Tensor& position_ids) const {
  const Tensor places = cast(reshape(position_ids, {position_ids.dim(0), position_ids.dim(1), 1, 1}), DType::kFloat32);
  const Tensor times = floor(places / full(places.shape(), plan_.growth->length)) + 1.0;
  return q * cast(log(times) * plan_.growth->beta + 1.0, q.dtype());
}

bool PlannedAttention::norms_all_heads() const {
  return plan_.head_norms && plan_.head_norms->over == HeadNormsPlan::Over::kAllHeads;
}

}  // namespace transom
