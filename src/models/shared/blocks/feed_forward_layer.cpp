// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/feed_forward_layer.h"

namespace transom {

PlannedFeedForward::PlannedFeedForward(const Scope& scope, const FeedForwardPlan& plan, int64_t width, double deviation)
    : plan_(plan), dropout_(plan.activation_dropout) {
  const Linear::Options options{.bias = plan.bias, .deviation = deviation};
  if (plan.gated && !plan.fused.empty()) {
    fused_.emplace(scope / plan.fused, width, 2 * plan.width, options);
  } else {
    if (plan.gated) gate_.emplace(scope / plan.gate, width, plan.width, options);
    up_.emplace(scope / plan.up, width, plan.width, options);
  }
  down_.emplace(scope / plan.down, plan.width, width, options);
}

Tensor PlannedFeedForward::operator()(const Tensor& x, ForwardContext& context) const {
  if (fused_) {
    const Tensor both = (*fused_)(x, context);
    const Tensor gate = slice(both, -1, 0, plan_.width), up = slice(both, -1, plan_.width, 2 * plan_.width);
    return (*down_)(dropout_(up * active(gate), context), context);
  }
  if (gate_) return (*down_)(dropout_(active((*gate_)(x, context)) * (*up_)(x, context), context), context);
  return (*down_)(dropout_(active((*up_)(x, context)), context), context);
}

Tensor PlannedFeedForward::active(const Tensor& x) const { return activation(plan_.activation, x); }

}  // namespace transom
