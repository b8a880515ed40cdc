// SPDX-License-Identifier: Apache-2.0
// Linear layers in 8-bit integers. Weights that are packed already: ops/packed_matrix.h.
#pragma once

#include "transom/ops.h"

namespace transom {

// As linear(); `transposed`: the weight is [K, N].
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Computing& computing TRANSOM_DEFAULT({}), bool transposed = false);

}  // namespace transom
