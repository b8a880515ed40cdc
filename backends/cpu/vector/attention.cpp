// SPDX-License-Identifier: Apache-2.0
// What attention does with a row of scores between its products.
#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

void attention_scores(float* x, const float* bias, float scale, float cap, size_t n) {
  if (cap > 0) {
    const float inner = scale / cap;
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) x[i] = cap * tanh_value(x[i] * inner);
  } else if (scale != 1) {
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) x[i] *= scale;
  }
  if (!bias) return;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] += bias[i];
}

float softmax_log_sum(float* x, size_t n) {
  float largest = -kInfinity;
  TRANSOM_SIMD_REDUCE(max, largest)
  for (size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  float total = 0;
  TRANSOM_SIMD_REDUCE(+, total)
  for (size_t i = 0; i < n; ++i) {
    x[i] = exp_value(x[i] - largest);
    total += x[i];
  }
  const float scale = 1.0f / total;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] *= scale;
  return largest + log_value(total);
}

void exponentials(float* x, float shift, size_t n) {
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) x[i] = exp_value(x[i] - shift);
}

void drop(float* y, const float* x, const uint32_t* words, uint32_t bound, float scale, size_t n) {
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) y[i] = words[i] >= bound ? x[i] * scale : 0.0f;
}

void score_gradient(float* dweights, const float* weights, float shift, float scale, size_t n) {
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) dweights[i] = scale * weights[i] * (dweights[i] - shift);
}

}  // namespace

void fill_attention(VectorKernels& kernels) {
  kernels.attention_scores = attention_scores;
  kernels.softmax_log_sum = softmax_log_sum;
  kernels.exponentials = exponentials;
  kernels.drop = drop;
  kernels.score_gradient = score_gradient;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
