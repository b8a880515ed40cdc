// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/attention/partial_rows.h"

namespace transom::cpu {

const PartialRows& partial_rows() {
  static const PartialRows table = [] {
    PartialRows made{};
    portable::fill_partial_rows(made);
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512) avx512::fill_partial_rows(made);
    else if (features.avx2) avx2::fill_partial_rows(made);
#endif
    return made;
  }();
  return table;
}

}  // namespace transom::cpu
