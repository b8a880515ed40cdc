// SPDX-License-Identifier: Apache-2.0
// The precision that operations are carried out in, as torch.autocast chooses it.
#pragma once

#include "ir/attributes.h"
#include "transom/ops.h"

namespace transom {

// For matrix products: x in the autocast type, where one is set and x is f32.
Tensor autocast_low(const Tensor& x);
// For softmax, norms and losses: x in f32, where an autocast type is set.
Tensor autocast_full(const Tensor& x);

// The attribute of nodes whose operands a device may round to TF32, see AllowTf32.
inline constexpr const char* kTf32 = "tf32";
// Sets it where this is active and the product is one of f32.
void allow_tf32(Attributes& attributes, DType dtype);

}  // namespace transom
