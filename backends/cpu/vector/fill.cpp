// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {

void fill(VectorKernels& kernels) {
  fill_arithmetic(kernels);
  fill_functions(kernels);
  fill_conversions(kernels);
  fill_random(kernels);
  fill_rows(kernels);
  fill_attention(kernels);
  fill_quantization(kernels);
  fill_products(kernels);
  fill_panels(kernels);
  fill_winograd(kernels);
  fill_depthwise(kernels);
}

}  // namespace transom::cpu::TRANSOM_LEVEL
