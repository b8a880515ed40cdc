// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {

const ByteProducts& byte_products() {
  static const ByteProducts table = [] {
    ByteProducts made{};
    made.name = "portable";
    portable::fill_byte_products(made);
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512 && features.avx512_vnni) avx512_vnni::fill_byte_products(made), made.name = "avx512_vnni";
    else if (features.avx512) avx512::fill_byte_products(made), made.name = "avx512";
    else if (features.avx2 && features.avx2_vnni) avx2_vnni::fill_byte_products(made), made.name = "avx2_vnni";
    else if (features.avx2) avx2::fill_byte_products(made), made.name = "avx2";
#endif
    return made;
  }();
  return table;
}

}  // namespace transom::cpu
