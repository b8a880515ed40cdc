// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"
#include "cpu/vector/attention/few_queries.h"

namespace transom::cpu {

const FewQueries& few_queries() {
  static const FewQueries table = [] {
    FewQueries made{};
    portable::fill_few_queries(made);
#if defined(TRANSOM_CPU_X86)
    const ProcessorFeatures& features = processor_features();
    if (features.avx512) avx512::fill_few_queries(made);
    else if (features.avx2) avx2::fill_few_queries(made);
#endif
    return made;
  }();
  return table;
}

}  // namespace transom::cpu
