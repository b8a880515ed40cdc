// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/layers.h"

namespace transom {

// A norm over the channels of [B, C, H, W].
inline Tensor norm_of_channels(const LayerNorm& norm, const Tensor& x, const ForwardContext& context) {
  return permute(norm(permute(x, {0, 2, 3, 1}), context), {0, 3, 1, 2});
}

}  // namespace transom
