// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// As linear(); `transposed`: the weight is [K, N].
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool transposed = false);

}  // namespace transom
