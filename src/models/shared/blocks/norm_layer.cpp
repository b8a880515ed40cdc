// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/norm_layer.h"

namespace transom {

PlannedNorm::PlannedNorm(const Scope& scope, int64_t width, const NormPlan& plan)
    : path_(scope.path()), plan_(plan), width_(width) {
  const bool layer = plan.kind == NormPlan::Kind::kLayer;
  if (plan.weight && layer && !plan.one_plus) layer_norm_.emplace(scope, width, plan.epsilon, plan.bias);
  else if (plan.weight && !layer) rms_norm_.emplace(scope, width, plan.epsilon, plan.one_plus);
  if (layer_norm_ || rms_norm_) return;
  if (plan.weight) {
    weight_ = scope.parameter("weight", {width}, plan.one_plus ? Initial::zeros() : Initial::ones());
    weight_->of_layer_norm = layer;
  }
  if (layer && plan.bias) {
    bias_ = scope.parameter("bias", {width}, Initial::zeros());
    bias_->of_layer_norm = true;
  }
}

Tensor PlannedNorm::scale(const Tensor& x) const {
  if (!weight_) return full({width_}, 1, x.dtype());
  return plan_.one_plus ? weight_->value + 1.0 : weight_->value;
}

Tensor PlannedNorm::operator()(const Tensor& x, ForwardContext& context) const {
  if (layer_norm_) return (*layer_norm_)(x, context);
  if (rms_norm_) return (*rms_norm_)(x, context);
  const ModuleScope module(path_);
  if (plan_.kind == NormPlan::Kind::kRms) return rms_norm(x, scale(x), plan_.epsilon, context.computing);
  const Tensor weight = scale(x);
  return layer_norm(x, weight, bias_ ? bias_->value : full(weight.shape(), 0, weight.dtype()), plan_.epsilon,
                    context.computing);
}

HeadNorm::HeadNorm(const Scope& scope, const std::string& module, int64_t heads, int64_t head_size,
                   const HeadNormsPlan& plan)
    : path_((scope / module).path()), plan_(plan) {
  using Over = HeadNormsPlan::Over;
  const Scope own = scope / module;
  if (plan.over == Over::kHead || plan.over == Over::kAllHeads) {
    whole_.emplace(own, plan.over == Over::kHead ? head_size : heads * head_size, plan.norm);
    return;
  }
  NormPlan bare = plan.norm;
  bare.weight = bare.bias = false;
  plain_.emplace(own, head_size, bare);
  if (plan.over == Over::kHeadWeights) {
    weights_.push_back(own.parameter("weight", {heads, head_size}, Initial::ones()));
    return;
  }
  for (int64_t head = 0; head < heads; ++head) {
    weights_.push_back((own / "norms" / head).parameter("weight", {head_size}, Initial::ones()));
    weights_.back()->of_layer_norm = plan.norm.kind == NormPlan::Kind::kLayer;
  }
}

Tensor HeadNorm::operator()(const Tensor& x, ForwardContext& context) const {
  if (whole_) return (*whole_)(x, context);
  const ModuleScope module(path_);
  std::vector<Tensor> rows;
  for (const auto& weight : weights_) rows.push_back(reshape(weight->value, {1, 1, -1, x.dim(3)}));
  return (*plain_)(x, context) * cast(rows.size() == 1 ? rows[0] : concatenate(rows, 2), x.dtype());
}

}  // namespace transom
