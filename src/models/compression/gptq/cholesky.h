// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

// The upper triangular U with h^-1 = U' U of a symmetric positive definite h [n, n]: what GPTQ corrects by. On all
// threads. Empty where h is not positive definite.
std::vector<float> inverse_factor(const std::vector<float>& h, int64_t n);

}  // namespace transom
