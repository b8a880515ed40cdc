// SPDX-License-Identifier: Apache-2.0
// Letters: B rows, T tokens, D inner width, S numbers of a state, R the rank of steps.
#include "models/nn/recurrence/mamba1_mixer.h"

#include <cmath>

#include "base/error.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

const Mamba1Plan& checked_mamba1(const Mamba1Plan& plan) {
  for (const int64_t extent : {plan.width, plan.inner, plan.state, plan.rank})
    if (extent < 1) fail("config.json: expected widths and a rank of steps above 0, found {}", extent);
  return plan;
}

std::vector<float> rates_of_states(const Mamba1Plan& plan) {
  if (plan.inner > kMostInitialValues / plan.state)
    fail("config.json: state_size {} of {} channels are more than this takes", plan.state, plan.inner);
  std::vector<float> row;
  for (int64_t s = 1; s <= plan.state; ++s) row.push_back(std::log(static_cast<float>(s)));
  std::vector<float> values;
  for (int64_t channel = 0; channel < plan.inner; ++channel) values.insert(values.end(), row.begin(), row.end());
  return values;
}

}  // namespace

Mamba1Mixer::Mamba1Mixer(const Scope& scope, const Mamba1Plan& plan, size_t state)
    : plan_(checked_mamba1(plan)),
      state_(state),
      path_(scope.path()),
      a_log_(scope.parameter("A_log", {plan.inner, plan.state}, Initial::given(rates_of_states(plan)))),
      d_(scope.parameter("D", {plan.inner}, Initial::ones())),
      conv1d_(scope / "conv1d", plan.inner, plan.taps, plan.conv_bias),
      in_proj_(scope / "in_proj", plan.width, 2 * plan.inner, {.bias = plan.bias, .deviation = plan.deviation}),
      x_proj_(scope / "x_proj", plan.inner, plan.rank + 2 * plan.state, {.bias = false, .deviation = plan.deviation}),
      steps_(scope / "dt_proj"),
      step_weight_(steps_.parameter("weight", {plan.inner, plan.rank},
                                    plan.steps_are_drawn ? Initial::normal(plan.step_deviation / std::sqrt(3.0))
                                                         : Initial::constant(plan.step_deviation))),
      step_bias_(steps_.parameter("bias", {plan.inner},
                                  plan.step_biases.empty() ? Initial::ones() : Initial::given(plan.step_biases))),
      out_proj_(scope / "out_proj", plan.inner, plan.width, {.bias = plan.bias, .deviation = plan.output_deviation}) {
  step_weight_->use = Parameter::Use::kLinear;
  if (plan.norms != Mamba1Plan::Norms::kModules) return;
  for (const char* name : {"dt_layernorm", "b_layernorm", "c_layernorm"})
    norms_.push_back((scope / name).parameter("weight", {norms_.empty() ? plan.rank : plan.state}, Initial::ones()));
}

Tensor Mamba1Mixer::normed(size_t which, const Tensor& x, const ForwardContext& context) const {
  if (plan_.norms == Mamba1Plan::Norms::kNone) return x;
  const Tensor weight = norms_.empty() ? full({x.dim(2)}, 1, x.dtype()) : norms_[which]->value;
  return rms_norm(x, weight, plan_.epsilon, context.computing);
}

Tensor Mamba1Mixer::operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  const int64_t B = x.dim(0), T = x.dim(1), D = plan_.inner, S = plan_.state, R = plan_.rank;
  const Tensor both = in_proj_(without_padding(x, attention_mask, context), context);
  const Tensor gate = slice(both, 2, D, 2 * D);
  Tensor u = activation(plan_.activation, conv1d_(slice(both, 2, 0, D), state_, context));
  u = without_padding(u, attention_mask, context);
  const Tensor chosen = x_proj_(u, context);
  const Tensor steps = linear(normed(0, slice(chosen, 2, 0, R), context), *step_weight_, {}, context);
  const Tensor dt = softplus(cast(steps, DType::kFloat32) + cast(step_bias_->value, DType::kFloat32));
  const auto of_state = [&](size_t which, int64_t begin) {
    return reshape(normed(which, slice(chosen, 2, begin, begin + S), context), {B, T, 1, S});
  };
  const Tensor a = neg(exp(cast(a_log_->value, DType::kFloat32)));
  const Tensor scanned =
      scan_tokens(reshape(u, {B, T, D, 1}), dt, a, of_state(1, R), of_state(2, R + S), state_ + 1, context);
  const Tensor wide = cast(u, DType::kFloat32), d = cast(d_->value, DType::kFloat32);
  const Tensor y = (reshape(scanned, {B, T, D}) + wide * d) * silu(cast(gate, DType::kFloat32));
  return out_proj_(cast(y, x.dtype()), context);
}

}  // namespace transom
