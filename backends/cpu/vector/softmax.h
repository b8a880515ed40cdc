// SPDX-License-Identifier: Apache-2.0
// Rows of softmax, for a row's own operation and for attention.
#pragma once

#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// y = e^(x - largest) divided by its sum. NaN in x, which is not seen in `largest`, is carried by the sum.
inline void softmax_below(float* y, const float* x, float largest, size_t n) {
  float total = 0;
  TRANSOM_SIMD_REDUCE(+, total)
  for (size_t i = 0; i < n; ++i) {
    const float e = exp_value(x[i] - largest);
    y[i] = e;
    total += e;
  }
  const float scale = 1.0f / total;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) y[i] *= scale;
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
