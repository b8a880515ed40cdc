// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "models/shared/blocks/decoder_plan.h"
#include "transom/layers.h"

namespace transom {

// The layer of a FeedForwardPlan: x [B, T, D] -> [B, T, D]; with a gate that of Shazeer, 2020 ("GLU variants").
class PlannedFeedForward {
 public:
  PlannedFeedForward(const Scope& scope, const FeedForwardPlan& plan, int64_t width, double deviation);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  Tensor active(const Tensor& x) const;
  FeedForwardPlan plan_;
  std::optional<Linear> fused_, gate_, up_, down_;
  Dropout dropout_;
};

}  // namespace transom
