// SPDX-License-Identifier: Apache-2.0
// bfloat16 and float16 (IEEE 754 binary16), rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace transom {

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7FFFFFFF) > 0x7F800000) bits = static_cast<uint16_t>((u >> 16) | 0x40);  // a NaN stays one
    else bits = static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
#if defined(__clang__) && __clang_major__ < 15
  // Without _Float16. The processor's own additions round: they bring the bits that stay to the end of the significand.
  Float16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value), sign = u >> 16 & 0x8000, size = u & 0x7FFFFFFF;
    if (size > 0x7F800000) bits = static_cast<uint16_t>(sign | 0x7E00 | (size >> 13 & 0x3FF));  // a NaN stays one
    else if (size >= 0x477FF000) bits = static_cast<uint16_t>(sign | 0x7C00);
    else if (size >= 0x38800000) bits = static_cast<uint16_t>(sign | (size + 0xC8000FFF + (size >> 13 & 1)) >> 13);
    else bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3F000000));
  }
  operator float() const {
    const uint32_t sign = uint32_t{bits} << 16 & 0x80000000, size = bits & 0x7FFF;
    if (size >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (size & 0x3FF) << 13);
    const float value = std::bit_cast<float>(size << 13) * 0x1p112f;  // the exponents' biases are 112 apart
    return sign ? -value : value;
  }
#else
  Float16(float value) : bits(static_cast<uint16_t>(std::bit_cast<uint16_t>(static_cast<_Float16>(value)))) {}
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
#endif
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace transom
