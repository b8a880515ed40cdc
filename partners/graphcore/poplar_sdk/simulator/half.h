// SPDX-License-Identifier: Apache-2.0
// Numbers as the machine stores them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "poplar/Type.hpp"

namespace ipu_emulator {

inline float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

// To nearest, ties to even; beyond the largest: infinity.
inline uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65520.0f)) return static_cast<uint16_t>(sign | (std::isnan(value) ? 0x7e00 : 0x7c00));
  if (magnitude < 0x1p-14f)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

// Up or down with the probability of the distance: what the machine does with `noise`, 32 random bits.
inline uint16_t to_half_stochastic(float value, uint32_t noise) {
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65504.0f)) return to_half(value);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude < 0x1p-14f) {
    const double scaled = static_cast<double>(magnitude) * 0x1p24;
    const double down = std::floor(scaled);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(down + (noise * 0x1p-32 < scaled - down ? 1 : 0)));
  }
  const uint32_t raised = (bits & 0x7fffffff) + (noise & 0x1fff);
  return static_cast<uint16_t>(sign | ((raised >> 13) - (112 << 10)));
}

inline void store_number(poplar::Type type, void* to, double real, int64_t integer) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  using Id = poplar::Type::Id;
  switch (type.id()) {
    case Id::kFloat:
      return put(static_cast<float>(real));
    case Id::kHalf:
      return put(to_half(static_cast<float>(real)));
    case Id::kBool:
      return put(static_cast<uint8_t>(integer != 0 || real != 0));
    case Id::kChar:
    case Id::kSignedChar:
    case Id::kUnsignedChar:
      return put(static_cast<int8_t>(integer));
    case Id::kShort:
    case Id::kUnsignedShort:
      return put(static_cast<int16_t>(integer));
    case Id::kInt:
    case Id::kUnsignedInt:
      return put(static_cast<int32_t>(integer));
    default:
      return put(integer);
  }
}

}  // namespace ipu_emulator
