// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/latent_attention.h"

#include "base/error.h"
#include "models/nn/weight.h"
#include "models/nn/weight_adapter.h"

namespace transom {
namespace {

NormPlan norm_of_latents(const LatentPlan& plan) { return {.epsilon = plan.norm_epsilon}; }

}  // namespace

LatentAttention::LatentAttention(const Scope& scope, const DecoderPlan& plan, const AttentionPlan& attention,
                                 int64_t number)
    : number_(number),
      plan_(attention),
      inner_(scope / plan_.latent->inner, plan.width, plan_.latent->rank + plan_.latent->turning,
             {.bias = plan_.bias, .deviation = plan.deviation}),
      norm_(scope / plan_.latent->norm, plan_.latent->rank, norm_of_latents(*plan_.latent)),
      outer_path_((scope / plan_.latent->outer).path()),
      outer_((scope / plan_.latent->outer)
                 .parameter("weight",
                            {plan_.heads * (plan_.latent->plain + plan_.latent->value_size), plan_.latent->rank},
                            Initial::normal(plan.deviation))),
      output_(scope / plan_.output, plan_.heads * plan_.latent->value_size, plan.width,
              {.bias = plan_.output_bias, .deviation = plan.deviation}),
      dropout_(plan_.dropout) {
  outer_->use = Parameter::Use::kLinear;
  const LatentPlan& latent = *plan_.latent;
  const int64_t queries = plan_.heads * plan_.head_size;
  const Linear::Options plain{.bias = false, .deviation = plan.deviation},
      inward{.bias = plan_.bias, .deviation = plan.deviation};
  if (latent.query_rank == 0) {
    query_.emplace(scope / plan_.query, plan.width, queries, plain);
  } else {
    query_inner_.emplace(scope / latent.query_inner, plan.width, latent.query_rank, inward);
    query_norm_.emplace(scope / latent.query_norm, latent.query_rank, norm_of_latents(latent));
    query_outer_.emplace(scope / latent.query_outer, latent.query_rank, queries, plain);
  }
  interleaved_ = plan_.rotary && plan.rotary[*plan_.rotary].interleaved;
}

Tensor LatentAttention::operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const {
  const Parts parts = parts_of(x, inputs, context);
  return output_(absorbs(context) ? absorbed(parts, inputs, context) : written_out(parts, inputs, context), context);
}

LatentAttention::Parts LatentAttention::parts_of(const Tensor& x, const AttentionInputs& inputs,
                                                 ForwardContext& context) const {
  const LatentPlan& latent = *plan_.latent;
  const int64_t B = x.dim(0), T = x.dim(1), d = plan_.head_size;
  const Tensor flat =
      query_ ? (*query_)(x, context) : (*query_outer_)((*query_norm_)((*query_inner_)(x, context), context), context);
  const Tensor q = reshape(flat, {B, T, plan_.heads, d});
  const Tensor joint = inner_(x, context);
  const auto turned = [&](const Tensor& heads) {
    if (!plan_.rotary) return heads;
    const RotaryAngles& angles = inputs.angles[*plan_.rotary];
    return rotate(interleaved_ ? turning_apart(heads, angles.cosine.dim(3)) : heads, angles);
  };
  const int64_t rank = latent.rank;
  return {slice(q, 3, 0, latent.plain), turned(slice(q, 3, latent.plain, d)), norm_(slice(joint, 2, 0, rank), context),
          turned(reshape(slice(joint, 2, rank, rank + latent.turning), {B, T, 1, latent.turning}))};
}

// Packed weights would have to be opened for each token, which costs more than the cache saves. What is decided here
// holds for all passes of a cache.
bool LatentAttention::absorbs(const ForwardContext& context) const {
  return context.cache && !outer_->packed && !context.computing.int8 && !context.computing.observer;
}

AttentionOptions LatentAttention::options_for(const AttentionInputs& inputs) const {
  AttentionOptions options{.scale = plan_.scale, .sliding_window = plan_.window, .soft_cap = plan_.soft_cap};
  options.causal = inputs.in.causal;
  if (!inputs.in.causal) options.sliding_window = 0;  // a mask of four axes says all
  return options;
}

Tensor LatentAttention::outer(const Tensor& latent, ForwardContext& context) const {
  const ModuleScope module(outer_path_);
  return linear(latent, *outer_, {}, context);
}

Tensor LatentAttention::written_out(const Parts& parts, const AttentionInputs& inputs, ForwardContext& context) const {
  const LatentPlan& latent = *plan_.latent;
  const int64_t B = parts.latent.dim(0), T = parts.latent.dim(1), H = plan_.heads,
                each = latent.plain + latent.value_size;
  const Tensor both = reshape(outer(parts.latent, context), {B, T, H, each});
  const Tensor q = concatenate({parts.q_plain, parts.q_turned}, 3);
  const Tensor k =
      concatenate({slice(both, 3, 0, latent.plain), broadcast_to(parts.k_turned, {B, T, H, latent.turning})}, 3);
  return cached_attention(number_, q, k, slice(both, 3, latent.plain, each), inputs.bias, options_for(inputs), dropout_,
                          context);
}

// [H, plain + value_size, rank]
Tensor LatentAttention::outer_weight(ForwardContext& context) const {
  const LatentPlan& latent = *plan_.latent;
  const int64_t each = latent.plain + latent.value_size;
  if (!adapter_of(*outer_, context.computing)) return reshape(outer_->value, {plan_.heads, each, latent.rank});
  // With what the adapter adds: the product with each unit vector.
  const Shape square = {latent.rank, latent.rank};
  const Tensor units = cast(equal(iota(square, 0), iota(square, 1)), outer_->value.dtype());
  return reshape(permute(outer(units, context), {1, 0}), {plan_.heads, each, latent.rank});
}

Tensor LatentAttention::absorbed(const Parts& parts, const AttentionInputs& inputs, ForwardContext& context) const {
  const LatentPlan& latent = *plan_.latent;
  const int64_t B = parts.latent.dim(0), T = parts.latent.dim(1), H = plan_.heads;
  const Tensor weight = outer_weight(context);
  const auto by_head = [&](const Tensor& x, const Tensor& of_heads, int64_t axis) {  // x [B, T, H, n] -> [B, T, H, m]
    return permute(dot_general(x, of_heads, {{2}, {0}, {3}, {axis}}, context.computing), {1, 2, 0, 3});
  };
  const Tensor q_latent = by_head(parts.q_plain, slice(weight, 1, 0, latent.plain), 1);
  const Tensor q = concatenate({q_latent, cast(parts.q_turned, q_latent.dtype())}, 3);
  const Tensor own = reshape(parts.latent, {B, T, 1, latent.rank});
  const Tensor k = concatenate({own, cast(parts.k_turned, own.dtype())}, 3);
  const Tensor mixed =
      reshape(cached_attention(number_, q, k, own, inputs.bias, options_for(inputs), dropout_, context),
              {B, T, H, latent.rank});
  const Tensor values =
      by_head(mixed, slice(weight, 1, latent.plain, latent.plain + latent.value_size), 2);  // [B, T, H, value_size]
  return reshape(values, {B, T, H * latent.value_size});
}

}  // namespace transom
