// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/products/pair_rows.h"

namespace transom::cpu {

const PairRows* pair_rows() {
  static const PairRows table = [] {
    PairRows made{};
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512 && features.avx512_bf16) avx512_bf16::fill_pair_rows(made);
#endif
    return made;
  }();
  return table.multiply ? &table : nullptr;
}

}  // namespace transom::cpu
