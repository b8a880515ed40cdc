// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/products/byte_rows.h"

namespace transom::cpu {

const ByteRows* byte_rows() {
  static const ByteRows table = [] {
    ByteRows made{};
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512 && features.avx512_vnni) avx512_vnni::fill_byte_rows(made);
#endif
    return made;
  }();
  return table.multiply ? &table : nullptr;
}

}  // namespace transom::cpu
