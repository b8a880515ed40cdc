// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/layers.h"

namespace transom {

// Batch norm over the channels of x [N, C, spatial...] that does not change: its scale, its shift and its statistics
// are those of the checkpoint, in training as well. It is what backbones of detectors have, whose batches are too small
// for statistics of their own (Carion et al., 2020).
class FrozenBatchNorm {
 public:
  FrozenBatchNorm(const Scope& scope, int64_t channels);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_, running_mean_, running_var_;
};

}  // namespace transom
