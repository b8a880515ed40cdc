// SPDX-License-Identifier: Apache-2.0
#include "models/shared/mixtures/mixture_of_experts.h"

#include <cmath>
#include <tuple>

#include "base/error.h"
#include "graph/ops/products/grouped_linear.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/nn/weight.h"
#include "models/nn/weight_adapter.h"

namespace transom {
namespace {

// 1 where the expert is among the chosen ones: chosen i64 [N, k] -> [N, k].
Tensor is_expert(const Tensor& chosen, int64_t expert) {
  return cast(equal(chosen, full(chosen.shape(), static_cast<double>(expert), DType::kInt64)), DType::kFloat32);
}

void check_experts(const ExpertsConfig& c) {
  if (c.experts < 1 || c.experts_per_token < 1 || c.experts_per_token > c.experts)
    fail("config.json: {} experts for each token (num_experts_per_tok) of {} (num_experts) cannot be",
         c.experts_per_token, c.experts);
  constexpr int64_t kWidest = 1 << 20;
  for (const int64_t width : {c.latent_width, c.shared_width})
    if (width < 0 || width > kWidest)
      fail("config.json: widths of experts: expected 0 to {}, found {}", kWidest, width);
  const RouterPlan& router = c.router;
  if (router.groups < 1 || c.experts % router.groups != 0 || router.seen_groups < 1 ||
      router.seen_groups > router.groups)
    fail("config.json: {} of {} groups (topk_group, n_group) of {} experts cannot be", router.seen_groups,
         router.groups, c.experts);
  const int64_t each = c.experts / router.groups;
  if (c.experts_per_token > router.seen_groups * each)
    fail("config.json: {} experts for each token (num_experts_per_tok), but the groups that it sees have {}",
         c.experts_per_token, router.seen_groups * each);
  if (router.groups > 1 && router.two_largest && each < 2)
    fail("config.json: groups (n_group) are chosen by their two best experts, but they have {}", each);
}

}  // namespace

Tensor MixtureOfExperts::Weight::operator()(const Tensor& x, ForwardContext& context) const {
  const ModuleScope module(path);
  return linear(x, *parameter, bias ? bias->value : Tensor(), context);
}

const ExpertNames& mixtral_expert_names() {
  static const ExpertNames names{"block_sparse_moe", "w1", "w2", "w3"};
  return names;
}

const ExpertNames& granite_expert_names() {
  static const ExpertNames names{"block_sparse_moe", "input_linear.gate", "output_linear", "input_linear.up"};
  return names;
}

const ExpertNames& gated_expert_names() {
  static const ExpertNames names{"mlp", "gate_proj", "down_proj", "up_proj"};
  return names;
}

MixtureOfExperts::SharedExpert::SharedExpert(const Scope& scope, const ExpertsConfig& c)
    : up_proj(scope / c.shared / "up_proj", c.width, c.shared_width, {.bias = c.shared_bias, .deviation = c.deviation}),
      down_proj(scope / c.shared / "down_proj", c.shared_width, c.width,
                {.bias = c.shared_bias, .deviation = c.deviation}) {
  const Linear::Options options{.bias = c.shared_bias, .deviation = c.deviation};
  if (!c.names.gate.empty()) gate_proj.emplace(scope / c.shared / "gate_proj", c.width, c.shared_width, options);
  if (c.shared_gate) gate.emplace(scope / (c.shared + "_gate"), c.width, 1, Linear::Options{false, c.deviation});
}

MixtureOfExperts::MixtureOfExperts(const Scope& scope, const ExpertsConfig& c)
    : config_(c), path_((scope / "experts").path()) {
  check_experts(c);
  const auto make = [&](const Scope& at, int64_t in, int64_t out, bool bias) {
    Weight made{at.path(), at.parameter("weight", {out, in}, Initial::normal(c.deviation)), nullptr};
    made.parameter->use = Parameter::Use::kLinear;
    if (bias) made.bias = at.parameter("bias", {out}, Initial::zeros());
    return made;
  };
  const Scope router = scope / c.router.module;
  router_ = make(router, c.width, c.experts, c.router.bias);
  if (!c.router.correction.empty())
    correction_ = (c.router.correction_beside ? scope : router)
                      .buffer(c.router.correction, {DType::kFloat32, {c.experts}}, Initial::zeros());
  if (!c.router.scale.empty()) scale_ = scope.parameter(c.router.scale, {c.width}, Initial::ones());
  if (!c.router.expert_scale.empty())
    expert_scale_ = scope.parameter(c.router.expert_scale, {c.experts}, Initial::ones());
  const int64_t width = c.latent_width > 0 ? c.latent_width : c.width;
  for (int64_t i = 0; i < c.experts; ++i) {
    const Scope expert = scope / "experts" / i;
    Weight gate;
    if (has_gates()) gate = make(expert / c.names.gate, width, c.intermediate_width, c.biases);
    Weight down = make(expert / c.names.down, c.intermediate_width, width, c.biases),
           up = make(expert / c.names.up, width, c.intermediate_width, c.biases);
    experts_.push_back({std::move(gate), std::move(down), std::move(up)});
  }
  if (c.latent_width > 0) {
    const Linear::Options options{.bias = c.latent_bias, .deviation = c.deviation};
    latent_in_.emplace(scope / c.latent_in, c.width, width, options);
    latent_out_.emplace(scope / c.latent_out, width, c.width, options);
  }
  if (c.shared_width > 0) shared_.emplace(scope, c);
}

// Whether rows go to their experts alone: weights are all plain, or those of a layer are compressed in one form, whose
// products give a row the bits that it has by itself.
bool MixtureOfExperts::are_plain(const Computing& computing) const {
  if (computing.observer || computing.int8) return false;
  bool any_packed = false, any_plain = false;
  for (const Expert& expert : experts_)
    for (Weight Expert::*layer : {&Expert::gate, &Expert::down, &Expert::up}) {
      if (layer == &Expert::gate && !has_gates()) continue;
      const Parameter &parameter = *(expert.*layer).parameter, &first = *(experts_[0].*layer).parameter;
      if (adapter_of(parameter, computing)) return false;
      (parameter.packed ? any_packed : any_plain) = true;
      if (parameter.packed && !(first.packed && are_of_one_form(*parameter.packed, *first.packed))) return false;
      if (!parameter.packed &&
          (parameter.use != Parameter::Use::kLinear || first.packed ||
           parameter.value.type() !=
               (layer == &Expert::down ? experts_[0].down : experts_[0].up).parameter->value.type()))
        return false;
    }
  return any_plain ? !any_packed && !computing.batch_invariant : any_packed;
}

// Of the chosen experts [N, k] -> [N, k, width]; undefined where there are none.
Tensor MixtureOfExperts::biases_of(const std::vector<std::shared_ptr<Parameter>>& biases, const Tensor& chosen) {
  if (biases.empty()) return {};
  std::vector<Tensor> rows;
  for (const auto& bias : biases) rows.push_back(unsqueeze(bias->value, 0));
  return gather(concatenate(rows, 0), chosen, 0);
}

// `gate` is empty where experts have none.
Tensor MixtureOfExperts::gated(const Tensor& gate, const Tensor& up) const {
  if (!has_gates()) return activation(config_.activation, up);
  const ExpertGate& form = config_.gate;
  if (!form.limit) return activation(config_.activation, gate) * up;
  const Tensor most = full(gate.shape(), *form.limit, gate.dtype()), least = full(up.shape(), -*form.limit, up.dtype());
  const Tensor g = minimum(gate, most);
  return (minimum(maximum(up, least), most) + 1.0) * (g * sigmoid(g * form.sharpness));
}

Tensor MixtureOfExperts::grouped(const Tensor& tokens, const Tensor& chosen, const Tensor& shares,
                                 const Computing& computing) const {
  const ModuleScope module(path_);
  const auto product = [&](const Tensor& x, Weight Expert::*layer) {
    std::vector<Tensor> weights;
    std::vector<const PackedMatrix*> packed;
    std::vector<std::shared_ptr<Parameter>> biases;
    for (const Expert& expert : experts_) {
      const Parameter& weight = *(expert.*layer).parameter;
      if (weight.packed) packed.push_back(weight.packed.get());
      else weights.push_back(weight.value);
      if (config_.biases) biases.push_back((expert.*layer).bias);
    }
    const Tensor y = packed.empty() ? grouped_linear(x, chosen, std::move(weights), computing)
                                    : grouped_quantized_matmul(x, chosen, packed, computing);
    return config_.biases ? y + cast(biases_of(biases, chosen), y.dtype()) : y;
  };
  const Tensor gate = has_gates() ? product(tokens, &Expert::gate) : Tensor();
  const Tensor y = product(gated(gate, product(tokens, &Expert::up)), &Expert::down);
  return reduce_sum(y * cast(unsqueeze(shares, -1), y.dtype()), {1});  // [B T, k, D] -> [B T, D]
}

Tensor MixtureOfExperts::dense(const Tensor& tokens, const Tensor& chosen, const Tensor& shares,
                               ForwardContext& context) const {
  Tensor result;
  for (size_t i = 0; i < experts_.size(); ++i) {
    const Expert& expert = experts_[i];
    const Tensor share = reduce_sum(shares * is_expert(chosen, static_cast<int64_t>(i)), {1}, true);  // [B T, 1]
    const Tensor gate = has_gates() ? expert.gate(tokens, context) : Tensor();
    const Tensor y = expert.down(gated(gate, expert.up(tokens, context)), context);
    const Tensor part = y * cast(share, y.dtype());
    result = result.defined() ? result + part : part;
  }
  return result;
}

Tensor MixtureOfExperts::router_logits(const Tensor& tokens, ForwardContext& context) const {
  const Parameter& weight = *router_.parameter;
  const bool plain = !weight.packed && !adapter_of(weight, context.computing) && !context.computing.observer;
  if (!config_.router.wide || !plain) return router_(tokens, context);
  const ModuleScope module(router_.path);
  Computing wide = context.computing;
  wide.dtype = DType::kFloat32, wide.int8 = false;
  const Tensor bias = router_.bias ? cast(router_.bias->value, DType::kFloat32) : Tensor();
  return linear(cast(tokens, DType::kFloat32), cast(weight.value, DType::kFloat32), bias, wide);
}

// Scores [N, experts]; the lowest where an expert stands in no group that the token sees.
Tensor MixtureOfExperts::seen(const Tensor& scores) const {
  const RouterPlan& router = config_.router;
  if (router.groups == 1) return scores;
  const int64_t N = scores.dim(0), groups = router.groups, each = config_.experts / groups;
  const Tensor apart = reshape(scores, {N, groups, each});
  const Tensor of_groups = router.two_largest ? reduce_sum(top_k(apart, 2).first, {2}) : reduce_max(apart, {2});
  const Tensor best = top_k(of_groups, router.seen_groups).second;  // [N, seen]
  const Shape pairs = {N, groups, router.seen_groups};
  const Tensor is_best = reduce_sum(
      cast(equal(broadcast_to(unsqueeze(best, 1), pairs), iota(pairs, 1)), DType::kFloat32), {2}, true);  // [N, g, 1]
  const Tensor visible = broadcast_to(greater(is_best, zeros(is_best.shape())), apart.shape());
  return reshape(select(visible, apart, full(apart.shape(), kMaskedScore)), scores.shape());
}

MixtureOfExperts::Choice MixtureOfExperts::choose(const Tensor& logits, const Computing& computing) const {
  using Scores = RouterPlan::Scores;
  const RouterPlan& router = config_.router;
  const Tensor wide = cast(logits, DType::kFloat32);
  if (router.scores == Scores::kSoftmaxOfChosen) {
    const auto [largest, chosen] = top_k(wide, config_.experts_per_token);
    return {chosen, softmax(largest, computing)};
  }
  const Tensor scores = router.scores == Scores::kSigmoid ? sigmoid(wide) : softmax(wide, computing);
  Choice choice;
  if (!correction_ && router.groups == 1) {
    std::tie(choice.shares, choice.experts) = top_k(scores, config_.experts_per_token);
  } else {
    const Tensor detached = scores.detach();
    const Tensor corrected = correction_ ? detached + unsqueeze(correction_->value, 0) : detached;
    choice.experts = top_k(seen(corrected), config_.experts_per_token).second;
    choice.shares = take_along_axis(scores, choice.experts, 1);
  }
  if (config_.shares_sum_to_one) {
    const Tensor sum = reduce_sum(choice.shares, {1}, true);
    choice.shares = choice.shares / (router.epsilon == 0 ? sum : sum + router.epsilon);
  }
  if (router.factor != 1) choice.shares = choice.shares * router.factor;
  if (expert_scale_)
    choice.shares = choice.shares * gather(cast(expert_scale_->value, DType::kFloat32), choice.experts, 0);
  return choice;
}

// What the router reads [N, D].
Tensor MixtureOfExperts::scaled(const Tensor& tokens, const Computing& computing) const {
  if (!scale_) return tokens;
  const int64_t D = tokens.dim(1);
  const Tensor normal = rms_norm(tokens, full({D}, 1, tokens.dtype()), config_.router.norm_epsilon, computing);
  return normal * cast(scale_->value, normal.dtype()) * (1 / std::sqrt(static_cast<double>(D)));
}

// What the expert of all tokens makes of them [N, D].
Tensor MixtureOfExperts::shared(const Tensor& tokens, ForwardContext& context) const {
  const Tensor up = shared_->up_proj(tokens, context);
  const Tensor inner = shared_->gate_proj ? activation(config_.activation, (*shared_->gate_proj)(tokens, context)) * up
                                          : activation(config_.activation, up);
  const Tensor made = shared_->down_proj(inner, context);
  return shared_->gate ? sigmoid((*shared_->gate)(tokens, context)) * made : made;
}

Tensor MixtureOfExperts::operator()(const Tensor& x, ForwardContext& context, std::vector<Tensor>* router,
                                    const Tensor& routed) const {
  const Shape rows{x.dim(0) * x.dim(1), x.dim(2)};
  const Tensor tokens = reshape(x, rows);
  const Tensor logits =
      router_logits(scaled(routed.defined() ? reshape(routed, rows) : tokens, context.computing), context);
  if (router) router->push_back(logits);
  const auto [chosen, shares] = choose(logits, context.computing);
  const Tensor read = latent_in_ ? (*latent_in_)(tokens, context) : tokens;
  Tensor result = are_plain(context.computing) ? grouped(read, chosen, shares, context.computing)
                                               : dense(read, chosen, shares, context);
  if (latent_out_) result = (*latent_out_)(result, context);
  if (shared_) result = result + shared(tokens, context);
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
