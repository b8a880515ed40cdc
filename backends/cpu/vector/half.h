// SPDX-License-Identifier: Apache-2.0
// 16-bit floats to f32 and back, rounded to nearest even, element by element and without branches.
#pragma once

#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

inline float bf16_to_float(uint16_t x) { return as_float(static_cast<uint32_t>(x) << 16); }

// The bits of the nearest bf16, in the lower half.
template <typename F>
auto bf16_bits(F x) {
  const auto u = as_bits(x);
  using Bits = decltype(as_bits(x));
  const Bits rounded = shift_right(u + Bits(0x7FFFu) + (shift_right(u, 16) & Bits(1u)), 16);
  return select(x == x, rounded, shift_right(u, 16) | Bits(0x40u));
}
inline uint16_t float_to_bf16(float x) { return static_cast<uint16_t>(bf16_bits(x)); }

inline float f16_to_float(uint16_t x) {
  const uint32_t magnitude = x & 0x7FFFu, sign = static_cast<uint32_t>(x & 0x8000u) << 16;
  const float scaled = as_float(magnitude << 13) * 0x1p112f;  // also right for subnormal numbers
  const float special = as_float((magnitude << 13) | 0x7F800000u);
  return as_float(as_bits(magnitude >= 0x7C00u ? special : scaled) | sign);
}

inline uint16_t float_to_f16(float x) {
  const uint32_t u = as_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7FFFFFFFu;
  const uint32_t normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
  const uint32_t subnormal = as_bits(as_float(magnitude) + 0.5f) - as_bits(0.5f);  // the sum's last place is 2^-24
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477FF000u ? 0x7C00u : result;
  result = magnitude > 0x7F800000u ? 0x7E00u : result;
  return static_cast<uint16_t>(sign | result);
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
