// SPDX-License-Identifier: Apache-2.0
// Rows of softmax, for a row's own operation and for attention.
#pragma once

#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// y = e^(x - largest) divided by its sum, which is given back. NaN in x, which is not seen in `largest`, is carried by
// the sum.
inline float softmax_below(float* y, const float* x, float largest, size_t n) {
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
  return total;
}

// Scores x = cap tanh(x scale / cap) + bias in place, without the cap where it is 0; gives back the largest.
inline float scaled_scores(float* x, const float* bias, float scale, float cap, size_t n) {
  if (cap > 0) {
    const float inner = scale / cap;
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) x[i] = cap * tanh_value(x[i] * inner);
    scale = 1;
  }
  float largest = -kInfinity;
  if (bias) {
    TRANSOM_SIMD_REDUCE(max, largest)
    for (size_t i = 0; i < n; ++i) {
      x[i] = x[i] * scale + bias[i];
      largest = x[i] > largest ? x[i] : largest;
    }
  } else {
    TRANSOM_SIMD_REDUCE(max, largest)
    for (size_t i = 0; i < n; ++i) {
      x[i] *= scale;
      largest = x[i] > largest ? x[i] : largest;
    }
  }
  return largest;
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
