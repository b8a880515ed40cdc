// SPDX-License-Identifier: Apache-2.0
#include "models/shared/mixtures/mixture_of_experts.h"

#include "base/error.h"
#include "graph/ops/products/grouped_linear.h"
#include "models/nn/weight.h"
#include "models/nn/weight_adapter.h"

namespace transom {
namespace {

// 1 where the expert is among the chosen ones: chosen i64 [N, k] -> [N, k].
Tensor is_expert(const Tensor& chosen, int64_t expert) {
  return cast(equal(chosen, full(chosen.shape(), static_cast<double>(expert), DType::kInt64)), DType::kFloat32);
}

}  // namespace

Tensor MixtureOfExperts::Weight::operator()(const Tensor& x, ForwardContext& context) const {
  const ModuleScope module(path);
  return linear(x, *parameter, {}, context);
}

const ExpertNames& mixtral_expert_names() {
  static const ExpertNames names{"block_sparse_moe", "w1", "w2", "w3"};
  return names;
}

const ExpertNames& gated_expert_names() {
  static const ExpertNames names{"mlp", "gate_proj", "down_proj", "up_proj"};
  return names;
}

MixtureOfExperts::SharedExpert::SharedExpert(const Scope& scope, const ExpertsConfig& c)
    : gate_proj(scope / "shared_expert" / "gate_proj", c.width, c.shared_width,
                {.bias = false, .deviation = c.deviation}),
      up_proj(scope / "shared_expert" / "up_proj", c.width, c.shared_width, {.bias = false, .deviation = c.deviation}),
      down_proj(scope / "shared_expert" / "down_proj", c.shared_width, c.width,
                {.bias = false, .deviation = c.deviation}),
      gate(scope / "shared_expert_gate", c.width, 1, {.bias = false, .deviation = c.deviation}) {}

MixtureOfExperts::MixtureOfExperts(const Scope& scope, const ExpertsConfig& c)
    : config_(c),
      gate_(scope / "gate", c.width, c.experts, {.bias = false, .deviation = c.deviation}),
      path_((scope / "experts").path()) {
  if (c.experts < 1 || c.experts_per_token < 1 || c.experts_per_token > c.experts)
    fail("config.json: {} experts for each token (num_experts_per_tok) of {} (num_experts) cannot be",
         c.experts_per_token, c.experts);
  for (int64_t i = 0; i < c.experts; ++i) {
    const Scope expert = scope / "experts" / i;
    const auto weight = [&](const std::string& name, int64_t in, int64_t out) {
      const Scope at = expert / name;
      Weight made{at.path(), at.parameter("weight", {out, in}, Initial::normal(c.deviation))};
      made.parameter->use = Parameter::Use::kLinear;
      return made;
    };
    Weight gate = weight(c.names.gate, c.width, c.intermediate_width),
           down = weight(c.names.down, c.intermediate_width, c.width),
           up = weight(c.names.up, c.width, c.intermediate_width);
    experts_.push_back({std::move(gate), std::move(down), std::move(up)});
  }
  if (c.shared_width > 0) shared_.emplace(scope, c);
}

bool MixtureOfExperts::are_plain(const Computing& computing) const {
  if (computing.observer || computing.int8 || computing.batch_invariant) return false;
  for (const Expert& expert : experts_)
    for (const Weight* weight : {&expert.gate, &expert.down, &expert.up}) {
      const Parameter& parameter = *weight->parameter;
      if (parameter.packed || parameter.use != Parameter::Use::kLinear || adapter_of(parameter, computing))
        return false;
      if (parameter.value.type() !=
          (weight == &expert.down ? experts_[0].down : experts_[0].gate).parameter->value.type())
        return false;
    }
  return true;
}

Tensor MixtureOfExperts::grouped(const Tensor& tokens, const Tensor& chosen, const Tensor& shares,
                                 const Computing& computing) const {
  const ModuleScope module(path_);
  std::vector<Tensor> gate, down, up;
  for (const Expert& expert : experts_) {
    gate.push_back(expert.gate.parameter->value);
    down.push_back(expert.down.parameter->value);
    up.push_back(expert.up.parameter->value);
  }
  const Tensor inner = activation(config_.activation, grouped_linear(tokens, chosen, std::move(gate), computing)) *
                       grouped_linear(tokens, chosen, std::move(up), computing);
  const Tensor y = grouped_linear(inner, chosen, std::move(down), computing);  // [B T, k, D]
  return reduce_sum(y * cast(unsqueeze(shares, -1), y.dtype()), {1});
}

Tensor MixtureOfExperts::dense(const Tensor& tokens, const Tensor& chosen, const Tensor& shares,
                               ForwardContext& context) const {
  Tensor result;
  for (size_t i = 0; i < experts_.size(); ++i) {
    const Expert& expert = experts_[i];
    const Tensor share = reduce_sum(shares * is_expert(chosen, static_cast<int64_t>(i)), {1}, true);  // [B T, 1]
    const Tensor y =
        expert.down(activation(config_.activation, expert.gate(tokens, context)) * expert.up(tokens, context), context);
    const Tensor part = y * cast(share, y.dtype());
    result = result.defined() ? result + part : part;
  }
  return result;
}

Tensor MixtureOfExperts::operator()(const Tensor& x, ForwardContext& context, std::vector<Tensor>* router) const {
  const Tensor tokens = reshape(x, {x.dim(0) * x.dim(1), x.dim(2)});
  const Tensor logits = gate_(tokens, context);
  if (router) router->push_back(logits);
  const auto [weights, chosen] =
      top_k(softmax(cast(logits, DType::kFloat32), context.computing), config_.experts_per_token);
  const Tensor shares = config_.shares_sum_to_one ? weights / reduce_sum(weights, {1}, true) : weights;  // [B T, k]
  Tensor result = are_plain(context.computing) ? grouped(tokens, chosen, shares, context.computing)
                                               : dense(tokens, chosen, shares, context);
  if (shared_) {
    const Tensor inner =
        activation(config_.activation, shared_->gate_proj(tokens, context)) * shared_->up_proj(tokens, context);
    result = result + sigmoid(shared_->gate(tokens, context)) * shared_->down_proj(inner, context);
  }
  return reshape(result, x.shape());
}

Tensor load_balancing_loss(const std::vector<Tensor>& router_logits, int64_t experts_per_token, const Tensor& mask) {
  Tensor assigned, probability, rows;
  for (const Tensor& logits : router_logits) {
    const int64_t N = logits.dim(0), experts = logits.dim(1);
    const Tensor counted = mask.defined() ? cast(reshape(mask, {N, 1}), DType::kFloat32) : full({N, 1}, 1);
    const Tensor probabilities = softmax(cast(logits, DType::kFloat32), kAsGiven);
    const Tensor chosen = top_k(probabilities.detach(), experts_per_token).second;
    std::vector<Tensor> counts;
    for (int64_t i = 0; i < experts; ++i) counts.push_back(reshape(sum(is_expert(chosen, i) * counted), {1}));
    const Tensor a = concatenate(counts, 0), p = reduce_sum(probabilities * counted, {0}), n = sum(counted);
    assigned = assigned.defined() ? assigned + a : a;
    probability = probability.defined() ? probability + p : p;
    rows = rows.defined() ? rows + n : n;
  }
  return sum((assigned / rows) * (probability / rows)) * static_cast<double>(assigned.dim(0));
}

}  // namespace transom
