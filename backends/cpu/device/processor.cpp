// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/processor.h"

#include <strings.h>

#include <cstdlib>

#include "cpu/device/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace transom::cpu {
namespace {

ProcessorFeatures detect() {
  ProcessorFeatures found;
#if defined(__x86_64__)
  // The compiler's builtin also asks whether the operating system saves the registers.
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) found.avx2 = found.avx2 && (c & bit_F16C);
  found.avx512 = found.avx512 && found.avx2;
  if (found.avx2 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    found.avx512_vnni = found.avx512 && (c & (1u << 11));
    found.amx_bf16 = found.avx512 && (d & (1u << 22));
    found.amx_int8 = found.avx512 && (d & (1u << 25));
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
      found.avx2_vnni = a & (1u << 4);
      found.avx512_bf16 = found.avx512 && (a & (1u << 5));
    }
  }
#endif
  return found;
}

}  // namespace

std::optional<IsaLevel> isa_limit() {
  const char* text = std::getenv("TRANSOM_CPU_ISA");
  if (!text || !*text) return std::nullopt;
  std::string names;
  for (const IsaName& known : kIsaNames) {
    if (strcasecmp(text, known.name) == 0 || strcasecmp(text, known.onednn_name) == 0) return known.level;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  fail(TRANSOM_INVALID_ARGUMENT, "TRANSOM_CPU_ISA: expected one of {}, found '{}'", names, text);
}

const ProcessorFeatures& processor_features() {
  static const ProcessorFeatures features = [] {
    ProcessorFeatures found = detect();
    const IsaLevel limit = isa_limit().value_or(IsaLevel::kAmx);
    if (limit < IsaLevel::kAmx) found.amx_bf16 = found.amx_int8 = false;
    if (limit < IsaLevel::kAvx512Bf16) found.avx512_bf16 = false;
    if (limit < IsaLevel::kAvx512Vnni) found.avx512_vnni = false;
    if (limit < IsaLevel::kAvx512) found.avx512 = false;
    if (limit < IsaLevel::kAvx2Vnni) found.avx2_vnni = false;
    if (limit < IsaLevel::kAvx2) found.avx2 = false;
    return found;
  }();
  return features;
}

bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool may = [] {
    constexpr long kRequestState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of Linux 5.16
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool has_tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (1u << 24));
    return has_tiles && syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
  }();
  return may;
#else
  return false;
#endif
}

}  // namespace transom::cpu
