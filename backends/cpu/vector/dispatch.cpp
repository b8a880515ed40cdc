// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

const VectorKernels& vector_kernels() {
  static const VectorKernels kernels = [] {
    VectorKernels made{};
    made.name = "portable";
    portable::fill(made);
#if defined(TRANSOM_CPU_X86)
    if (processor_features().avx512) {
      avx512::fill(made);
      made.name = "avx512";
      if (processor_features().avx512_bf16) avx512_bf16::fill_panels(made);
    } else if (processor_features().avx2) {
      avx2::fill(made);
      made.name = "avx2";
    }
#endif
    return made;
  }();
  return kernels;
}

}  // namespace transom::cpu
