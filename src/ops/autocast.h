// SPDX-License-Identifier: Apache-2.0
// The precision that operations are carried out in, as torch.autocast chooses it.
#pragma once

#include "transom/ops.h"

namespace transom {

// For matrix products: x in the autocast type, where one is set and x is f32.
Tensor autocast_low(const Tensor& x);
// For softmax, norms and losses: x in f32, where an autocast type is set.
Tensor autocast_full(const Tensor& x);

}  // namespace transom
