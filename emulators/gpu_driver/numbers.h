// SPDX-License-Identifier: Apache-2.0
// Numbers of f32, f16 and bf16 in memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulator {

enum class NumberKind { kF32, kF16, kBf16 };

inline float read_number(NumberKind kind, const void* memory, int64_t place) {
  if (kind == NumberKind::kF32) return static_cast<const float*>(memory)[place];
  const uint16_t half = static_cast<const uint16_t*>(memory)[place];
  if (kind == NumberKind::kBf16) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  _Float16 value;
  std::memcpy(&value, &half, sizeof value);
  return static_cast<float>(value);
}

inline void write_number(NumberKind kind, void* memory, int64_t place, float value) {
  if (kind == NumberKind::kF32) {
    static_cast<float*>(memory)[place] = value;
    return;
  }
  uint16_t half = 0;
  if (kind == NumberKind::kF16) {
    const auto rounded = static_cast<_Float16>(value);
    std::memcpy(&half, &rounded, sizeof half);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    half = std::isnan(value) ? static_cast<uint16_t>(bits >> 16 | 0x40)
                             : static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  static_cast<uint16_t*>(memory)[place] = half;
}

}  // namespace emulator
