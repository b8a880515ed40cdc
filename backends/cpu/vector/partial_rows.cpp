// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/partial_rows.h"

#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// The scores in place; gives back the largest.
float partial_scores(float* x, const float* bias, float scale, float cap, size_t n) {
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

// NaN, which is not seen in `largest`, is carried by the sum.
void statistics(float* x, const float* bias, float scale, float cap, size_t n, float* largest, float* sum) {
  const float most = partial_scores(x, bias, scale, cap, n);
  float total = 0;
  TRANSOM_SIMD_REDUCE(+, total)
  for (size_t i = 0; i < n; ++i) {
    const float e = exp_value(x[i] - most);
    x[i] = e;
    total += e;
  }
  const float share = 1.0f / total;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] *= share;
  *largest = most;
  *sum = total;
}

void weights(float* x, const float* bias, float scale, float cap, size_t n, float largest, float sum) {
  partial_scores(x, bias, scale, cap, n);
  const float share = 1.0f / sum;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] = exp_value(x[i] - largest) * share;
}

}  // namespace

void fill_partial_rows(PartialRows& table) { table = {statistics, weights}; }

}  // namespace transom::cpu::TRANSOM_LEVEL
