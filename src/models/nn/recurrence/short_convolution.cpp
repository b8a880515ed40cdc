// SPDX-License-Identifier: Apache-2.0
#include "models/nn/recurrence/short_convolution.h"

#include "transom/ops.h"

namespace transom {

ShortConvolution::ShortConvolution(const Scope& scope, const ShortConvolutionPlan& plan, size_t state)
    : width_(plan.width),
      state_(state),
      path_(scope.path()),
      conv_(scope / plan.convolution, plan.width, plan.taps, plan.bias),
      in_proj_(scope / plan.inward, plan.width, 3 * plan.width, {.bias = plan.bias, .deviation = plan.deviation}),
      out_proj_(scope / plan.outward, plan.width, plan.width, {.bias = plan.bias, .deviation = plan.deviation}) {}

Tensor ShortConvolution::operator()(const Tensor& x, const Tensor& attention_mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor all = in_proj_(without_padding(x, attention_mask, context), context);
  const auto third = [&](int64_t i) { return slice(all, 2, i * width_, (i + 1) * width_); };
  return out_proj_(third(1) * conv_(third(0) * third(2), state_, context), context);
}

}  // namespace transom
