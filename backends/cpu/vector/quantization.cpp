// SPDX-License-Identifier: Apache-2.0
// Rows to 8-bit integers, and products of them back.
#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

float quantize_row(uint8_t* y, const float* x, size_t n) {
  float largest = 0;
  TRANSOM_SIMD_REDUCE(max, largest)
  for (size_t i = 0; i < n; ++i) {
    const float magnitude = __builtin_fabsf(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  float poison = 0;  // NaN where a value is not finite: so is the row then, as in the float64 reference
  TRANSOM_SIMD_REDUCE(+, poison)
  for (size_t i = 0; i < n; ++i) poison += x[i] * 0.0f;
  const float scale = largest * (1.0f / 127.0f), divisor = scale > 0 ? scale : 1.0f;
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(nearest(x[i] / divisor).integer + 128);
  return scale + poison;
}

// Rounded once at every level, those without such an instruction too: integers give the same bits everywhere.
void dequantize_row(float* y, const int32_t* sums, const int32_t* surplus, const float* scales, float scale,
                    const float* bias, size_t n) {
  if (bias) {
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i)
      y[i] = __builtin_fmaf(static_cast<float>(sums[i] - surplus[i]), scale * scales[i], bias[i]);
  } else {
    TRANSOM_SIMD
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i] - surplus[i]) * (scale * scales[i]);
  }
}

}  // namespace

void fill_quantization(VectorKernels& kernels) {
  kernels.quantize_row = quantize_row;
  kernels.dequantize_row = dequantize_row;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
