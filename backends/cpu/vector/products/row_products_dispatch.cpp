// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/products/row_products.h"

namespace transom::cpu {

const RowProducts& row_products() {
  static const RowProducts table = [] {
    RowProducts made{};
    made.name = "portable";
    portable::fill_row_products(made);
#if defined(TRANSOM_CPU_X86)
    if (processor_features().avx512) avx512::fill_row_products(made), made.name = "avx512";
    else if (processor_features().avx2) avx2::fill_row_products(made), made.name = "avx2";
#endif
    return made;
  }();
  return table;
}

}  // namespace transom::cpu
