// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/transpose.h"

namespace transom::cpu {

const TransposedBlocks* transposed_blocks() {
  static const TransposedBlocks table = [] {
    TransposedBlocks made{};
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512) avx512::fill_transposed_blocks(made);
    else if (features.avx2) avx2::fill_transposed_blocks(made);
#endif
    return made;
  }();
  return table.transpose ? &table : nullptr;
}

}  // namespace transom::cpu
