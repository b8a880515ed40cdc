// SPDX-License-Identifier: Apache-2.0
// Letters: B rows, T tokens, G heads of S numbers of queries and keys, H heads of P numbers of values.
#include "models/nn/recurrence/gated_delta_mixer.h"

#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

const GatedDeltaPlan& checked_delta(const GatedDeltaPlan& plan) {
  for (const int64_t extent : {plan.width, plan.key_heads, plan.key_size, plan.value_heads, plan.value_size})
    if (extent < 1) fail("config.json: expected widths above 0, found {}", extent);
  if (plan.value_heads > kMostInitialValues) fail("config.json: {} heads are more than this takes", plan.value_heads);
  if (plan.value_heads % plan.key_heads != 0)
    fail("config.json: {} heads of values do not share {} heads of keys", plan.value_heads, plan.key_heads);
  return plan;
}

// Of new weights: rates from 0 to 16.
std::vector<float> spread_rates(int64_t heads) {
  std::vector<float> values;
  for (int64_t h = 0; h < heads; ++h)
    values.push_back(std::log(16 * (static_cast<float>(h) + 0.5f) / static_cast<float>(heads)));
  return values;
}

Tensor in_f32(const Tensor& x) { return cast(x, DType::kFloat32); }

// Heads [..., S] of length 1.
Tensor of_unit_length(const Tensor& x) { return x * rsqrt(reduce_sum(x * x, {x.rank() - 1}, true) + 1e-6); }

}  // namespace

GatedDeltaMixer::GatedDeltaMixer(const Scope& scope, const GatedDeltaPlan& plan, size_t state)
    : plan_(checked_delta(plan)),
      state_(state),
      path_(scope.path()),
      dt_bias_(scope.parameter("dt_bias", {plan.value_heads}, Initial::ones())),
      a_log_(scope.parameter("A_log", {plan.value_heads}, Initial::given(spread_rates(plan.value_heads)))),
      norm_((scope / "norm").parameter("weight", {plan.value_size}, Initial::ones())),
      conv1d_(scope / "conv1d", 2 * keys() + values(), plan.taps, false),
      out_proj_(scope / "out_proj", values(), plan.width, {.bias = false, .deviation = plan.deviation}) {
  const auto add = [&](const char* name, int64_t width) {
    in_.emplace_back(scope / name, plan.width, width, Linear::Options{.bias = false, .deviation = plan.deviation});
  };
  if (plan.joined) {
    add("in_proj_qkvz", 2 * keys() + 2 * values()), add("in_proj_ba", 2 * plan.value_heads);
  } else {
    add("in_proj_qkv", 2 * keys() + values()), add("in_proj_z", values());
    add("in_proj_b", plan.value_heads), add("in_proj_a", plan.value_heads);
  }
}

GatedDeltaMixer::Projected GatedDeltaMixer::project(const Tensor& x, ForwardContext& context) const {
  if (plan_.joined) return project_joined(x, context);
  return {in_[0](x, context), reshape(in_[1](x, context), {x.dim(0), x.dim(1), plan_.value_heads, plan_.value_size}),
          in_[2](x, context), in_[3](x, context)};
}

// Each head of keys has beside it what belongs to the heads of values that share it.
GatedDeltaMixer::Projected GatedDeltaMixer::project_joined(const Tensor& x, ForwardContext& context) const {
  const int64_t B = x.dim(0), T = x.dim(1), G = plan_.key_heads, S = plan_.key_size, H = plan_.value_heads;
  const int64_t own = values() / G, each = H / G;
  const Tensor wide = reshape(in_[0](x, context), {B, T, G, 2 * S + 2 * own});
  const Tensor narrow = reshape(in_[1](x, context), {B, T, G, 2 * each});
  const auto part = [&](int64_t begin, int64_t width) {
    return reshape(slice(wide, 3, begin, begin + width), {B, T, G * width});
  };
  const Tensor convolved = concatenate({part(0, S), part(S, S), part(2 * S, own)}, 2);
  return {convolved, reshape(part(2 * S + own, own), {B, T, H, plan_.value_size}),
          reshape(slice(narrow, 3, 0, each), {B, T, H}), reshape(slice(narrow, 3, each, 2 * each), {B, T, H})};
}

Tensor GatedDeltaMixer::operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  const int64_t B = x.dim(0), T = x.dim(1), G = plan_.key_heads, S = plan_.key_size, H = plan_.value_heads,
                P = plan_.value_size;
  const Projected in = project(without_padding(x, attention_mask, context), context);
  const Tensor u = in_f32(activation(plan_.activation, conv1d_(in.convolved, state_, context)));
  const auto heads = [&](int64_t begin) {
    return of_unit_length(reshape(slice(u, 2, begin, begin + G * S), {B, T, G, S}));
  };
  const Tensor q = heads(0) * (1 / std::sqrt(static_cast<double>(S))), k = heads(keys());
  const Tensor v = reshape(slice(u, 2, 2 * keys(), 2 * keys() + values()), {B, T, H, P});
  const Tensor rates = neg(exp(in_f32(a_log_->value))) * softplus(in_f32(in.steps) + in_f32(dt_bias_->value));
  const Tensor read = delta_tokens(v, rates, sigmoid(in.beta), k, q, state_ + 1, context);
  const Tensor normal = rms_norm(in_f32(cast(read, x.dtype())), full({P}, 1), plan_.epsilon, context.computing);
  const Tensor y = in_f32(cast(normal, x.dtype()) * norm_->value) * silu(in_f32(in.gate));
  return out_proj_(cast(reshape(y, {B, T, H * P}), x.dtype()), context);
}

}  // namespace transom
