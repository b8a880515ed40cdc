// SPDX-License-Identifier: Apache-2.0
// What attention does with a row between its products.
#include "cpu/vector/softmax.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// The scores, and their softmax.
void attention_weights(float* x, const float* bias, float scale, float cap, size_t n) {
  float total;
  softmax_of_scores(x, bias, scale, cap, n, total);
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
  kernels.attention_weights = attention_weights;
  kernels.drop = drop;
  kernels.score_gradient = score_gradient;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
