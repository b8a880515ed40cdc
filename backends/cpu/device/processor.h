// SPDX-License-Identifier: Apache-2.0
// What the processor that we run on can do.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace transom::cpu {

struct ProcessorFeatures {
  bool avx2 = false;       // with FMA and F16C
  bool avx2_vnni = false;  // AVX-VNNI
  bool avx512 = false;     // F, BW, DQ, VL
  bool avx512_vnni = false, avx512_bf16 = false, amx_bf16 = false, amx_int8 = false;

  bool fast_bf16() const { return avx512_bf16 || amx_bf16; }
};

// The levels that TRANSOM_CPU_ISA names: processors that users have. Each has what those before it have, but for
// avx2_vnni, which no AVX-512 level asks for.
enum class IsaLevel { kPortable, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx };
struct IsaName {
  const char *name, *onednn_name;
  IsaLevel level;
};
inline constexpr std::array<IsaName, 7> kIsaNames = {{{"portable", "sse41", IsaLevel::kPortable},
                                                      {"avx2", "avx2", IsaLevel::kAvx2},
                                                      {"avx2_vnni", "avx2_vnni", IsaLevel::kAvx2Vnni},
                                                      {"avx512", "avx512_core", IsaLevel::kAvx512},
                                                      {"avx512_vnni", "avx512_core_vnni", IsaLevel::kAvx512Vnni},
                                                      {"avx512_bf16", "avx512_core_bf16", IsaLevel::kAvx512Bf16},
                                                      {"amx", "avx512_core_amx", IsaLevel::kAmx}}};

// The level that TRANSOM_CPU_ISA sets as the limit, by either name in any case; none if it is unset. Fails for another
// word.
std::optional<IsaLevel> isa_limit();

// Of this processor, or less where TRANSOM_CPU_ISA says so. oneDNN is limited to the same (see library.h).
const ProcessorFeatures& processor_features();

// Whether the operating system lets this process use the tiles of AMX; asks it for them at the first call.
bool may_use_tiles();

}  // namespace transom::cpu
