// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// Distances between tokens, i64, brought within -most .. most.
inline Tensor clipped(const Tensor& distance, int64_t most) {
  const auto bound = [](int64_t value) { return constant(static_cast<double>(value), DType::kInt64); };
  return minimum(maximum(distance, bound(-most)), bound(most));
}

}  // namespace transom
