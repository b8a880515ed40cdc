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
  Float16(float value) : bits(static_cast<uint16_t>(std::bit_cast<uint16_t>(static_cast<_Float16>(value)))) {}
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace transom
