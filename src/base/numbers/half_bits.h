// SPDX-License-Identifier: Apache-2.0
// Conversions of float16 without the compiler's library calls, which take some 20 ns each where the build's processor
// has no instruction for them: a checkpoint of 4-bit blocks has one for every 32 weights. The same values as Float16.
#pragma once

#include <bit>
#include <cstdint>

namespace transom {

inline float float_of_half(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} << 16 & 0x80000000, size = bits & 0x7FFF;
  if (size >= 0x7C00)  // a NaN stays one, and a quiet one
    return std::bit_cast<float>(sign | 0x7F800000 | (size > 0x7C00 ? 0x400000 : 0) | (size & 0x3FF) << 13);
  const float value = std::bit_cast<float>(size << 13) * 0x1p112f;  // the exponents' biases are 112 apart
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// Rounded to nearest, of two to the even one.
inline uint16_t half_of_float(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value), sign = u >> 16 & 0x8000, size = u & 0x7FFFFFFF;
  if (size > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | (size >> 13 & 0x3FF));
  if (size >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
  if (size >= 0x38800000) return static_cast<uint16_t>(sign | (size + 0xC8000FFF + (size >> 13 & 1)) >> 13);
  // The processor's own addition rounds: it brings the bits that stay to the end of the significand.
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3F000000));
}

}  // namespace transom
