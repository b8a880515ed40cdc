// SPDX-License-Identifier: Apache-2.0
#include "models/nn/recurrence/mamba2_mixer.h"

#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

const Mamba2Plan& checked(const Mamba2Plan& plan) {
  for (const int64_t extent : {plan.width, plan.inner, plan.heads, plan.head_size, plan.groups, plan.state})
    if (extent < 1) fail("config.json: expected widths above 0, found {}", extent);
  if (plan.heads > plan.inner || plan.heads * plan.head_size != plan.inner)
    fail("config.json: {} heads of {} do not make up the inner width {}", plan.heads, plan.head_size, plan.inner);
  if (plan.heads > kMostInitialValues) fail("config.json: {} heads are more than this takes", plan.heads);
  if (plan.heads % plan.groups != 0)
    fail("config.json: {} heads do not share {} groups (n_groups)", plan.heads, plan.groups);
  return plan;
}

std::vector<float> rates_of(int64_t heads) {
  std::vector<float> values;
  for (int64_t h = 1; h <= heads; ++h) values.push_back(std::log(static_cast<float>(h)));
  return values;
}

}  // namespace

Mamba2Mixer::Mamba2Mixer(const Scope& scope, const Mamba2Plan& plan, size_t state)
    : plan_(checked(plan)),
      state_(state),
      path_(scope.path()),
      dt_bias_(scope.parameter("dt_bias", {plan.heads},
                               plan.step_biases.empty() ? Initial::ones() : Initial::given(plan.step_biases))),
      a_log_(scope.parameter("A_log", {plan.heads}, Initial::given(rates_of(plan.heads)))),
      d_(scope.parameter("D", {plan.heads}, Initial::ones())),
      norm_((scope / "norm").parameter("weight", {plan.inner}, Initial::ones())),
      conv1d_(scope / "conv1d", convolved(), plan.taps, plan.conv_bias),
      in_proj_(scope / "in_proj", plan.width, plan.inner + convolved() + plan.heads,
               {.bias = plan.bias, .deviation = plan.deviation}),
      out_proj_(scope / "out_proj", plan.inner, plan.width, {.bias = plan.bias, .deviation = plan.output_deviation}) {}

Tensor Mamba2Mixer::gated_norm(const Tensor& y, const Tensor& gate, const ForwardContext& context) const {
  const Tensor gated = y * silu(cast(gate, DType::kFloat32));
  const int64_t groups = plan_.grouped_norm ? plan_.groups : 1, width = plan_.inner / groups;
  const Tensor parts = reshape(gated, {y.dim(0), y.dim(1), groups, width});
  const Tensor normal = rms_norm(parts, full({width}, 1), plan_.epsilon, context.computing);
  return cast(reshape(normal, y.shape()), gate.dtype()) * norm_->value;
}

Tensor Mamba2Mixer::operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  const int64_t B = x.dim(0), T = x.dim(1), I = plan_.inner, H = plan_.heads, G = plan_.groups, S = plan_.state;
  const Tensor all = in_proj_(without_padding(x, attention_mask, context), context);
  const Tensor gate = slice(all, 2, 0, I), steps = slice(all, 2, I + convolved(), I + convolved() + H);
  Tensor u = activation(plan_.activation, conv1d_(slice(all, 2, I, I + convolved()), state_, context));
  u = cast(without_padding(u, attention_mask, context), DType::kFloat32);
  Tensor dt = softplus(cast(steps, DType::kFloat32) + cast(dt_bias_->value, DType::kFloat32));
  if (plan_.step_limit.first > 0) dt = maximum(dt, full(dt.shape(), plan_.step_limit.first));
  if (std::isfinite(plan_.step_limit.second)) dt = minimum(dt, full(dt.shape(), plan_.step_limit.second));
  const Tensor heads = reshape(slice(u, 2, 0, I), {B, T, H, plan_.head_size});
  const auto of_groups = [&](int64_t begin) { return reshape(slice(u, 2, begin, begin + G * S), {B, T, G, S}); };
  const Tensor a = neg(exp(cast(reshape(a_log_->value, {H, 1}), DType::kFloat32)));
  const Tensor scanned = scan_tokens(heads, dt, a, of_groups(I), of_groups(I + G * S), state_ + 1, context);
  const Tensor y = scanned + heads * reshape(cast(d_->value, DType::kFloat32), {H, 1});
  return out_proj_(cast(gated_norm(reshape(y, {B, T, I}), gate, context), x.dtype()), context);
}

}  // namespace transom
