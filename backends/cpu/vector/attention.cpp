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
  kernels.drop = drop;
  kernels.score_gradient = score_gradient;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
