// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace transom::cpu {

const ProcessorFeatures& processor_features() {
  static const ProcessorFeatures features = [] {
    ProcessorFeatures found;
#if defined(__x86_64__)
    // The compiler's builtin also asks whether the operating system saves the registers.
    found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) found.avx2 = found.avx2 && (c & bit_F16C);
    found.avx512 = found.avx512 && found.avx2;
    if (found.avx512 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      found.avx512_vnni = c & (1u << 11);
      found.amx_bf16 = d & (1u << 22);
      found.amx_int8 = d & (1u << 25);
      if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) found.avx512_bf16 = a & (1u << 5);
    }
#endif
    const char* text = std::getenv("TRANSOM_CPU_ISA");
    const std::string_view most = text ? text : "";
    if (most == "portable") return ProcessorFeatures{};
    if (most == "avx2") return ProcessorFeatures{.avx2 = found.avx2};
    if (most == "avx512") return ProcessorFeatures{.avx2 = found.avx2, .avx512 = found.avx512};
    return found;
  }();
  return features;
}

}  // namespace transom::cpu
