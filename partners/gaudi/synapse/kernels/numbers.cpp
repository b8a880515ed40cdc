// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <algorithm>

#include "../configuration.h"
#include "kernel.h"

namespace synapse_emulator {
namespace {

// A small binary float, rounded to nearest even; `fraction` stored bits, exponents from `lowest` (of normal numbers).
// Numbers beyond `largest` become it, infinities too if they are to saturate.
float rounded(float value, int fraction, int lowest, float largest, bool saturate) {
  if (std::isnan(value) || value == 0) return value;
  if (std::isinf(value)) return saturate ? std::copysign(largest, value) : value;
  int exponent;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, lowest) - fraction;
  const float scaled = std::ldexp(value, -unit);
  const float result = std::ldexp(std::nearbyint(scaled), unit);
  if (std::abs(result) <= largest) return result;
  return saturate ? std::copysign(largest, value) : std::copysign(INFINITY, value);
}

// The bits of a number that the format holds exactly. All exponents of the E4M3 of the third generation are finite.
uint32_t encode(float value, int exponent_bits, int fraction, bool has_infinity) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + fraction) : 0;
  const uint32_t top = (1u << exponent_bits) - 1;
  if (std::isnan(value)) return sign | (top << fraction) | ((1u << fraction) - 1);
  if (std::isinf(value)) return sign | (top << fraction) | (has_infinity ? 0 : (1u << fraction) - 1);
  if (value == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent;
  const float part = std::frexp(std::abs(value), &exponent);  // [0.5, 1)
  int biased = exponent - 1 + bias;
  if (biased <= 0) return sign | static_cast<uint32_t>(std::ldexp(std::abs(value), bias - 1 + fraction));
  return sign | static_cast<uint32_t>(biased) << fraction | static_cast<uint32_t>(std::ldexp(part * 2 - 1, fraction));
}

float decode(uint32_t bits, int exponent_bits, int fraction, bool top_is_special, bool only_ones_nan) {
  const bool negative = (bits >> (exponent_bits + fraction)) & 1;
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t exponent = (bits >> fraction) & top, part = bits & ((1u << fraction) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float value;
  if (exponent == top && top_is_special) value = part == 0 ? INFINITY : NAN;
  else if (exponent == top && only_ones_nan && part == (1u << fraction) - 1) value = NAN;
  else if (exponent == 0) value = std::ldexp(static_cast<float>(part), 1 - bias - fraction);
  else value = std::ldexp(1 + std::ldexp(static_cast<float>(part), -fraction), static_cast<int>(exponent) - bias);
  return negative ? -value : value;
}

// The second generation keeps the top exponent for infinity and NaN, the third does not.
bool has_wide_e4m3() { return configuration().generation.hf8_maximum > 240; }

}  // namespace

Half::Half(float value) : bits(static_cast<uint16_t>(encode(rounded(value, 10, -14, 65504, false), 5, 10, true))) {}
Half::operator float() const { return decode(bits, 5, 10, true, false); }

Float8E4M3::Float8E4M3(float value)
    : bits(static_cast<uint8_t>(
          encode(rounded(value, 3, -6, has_wide_e4m3() ? 448 : 240, true), 4, 3, !has_wide_e4m3()))) {}
Float8E4M3::operator float() const { return decode(bits, 4, 3, !has_wide_e4m3(), true); }

Float8E5M2::Float8E5M2(float value)
    : bits(static_cast<uint8_t>(encode(rounded(value, 2, -14, 57344, true), 5, 2, true))) {}
Float8E5M2::operator float() const { return decode(bits, 5, 2, true, false); }

int64_t size_of(synDataType type) {
  switch (type) {
    case syn_type_int8:
    case syn_type_uint8:
    case syn_type_fp8_143:
    case syn_type_fp8_152:
      return 1;
    case syn_type_bf16:
    case syn_type_fp16:
    case syn_type_int16:
    case syn_type_uint16:
      return 2;
    case syn_type_single:
    case syn_type_int32:
    case syn_type_uint32:
      return 4;
    case syn_type_int64:
    case syn_type_uint64:
      return 8;
    default:
      return 0;
  }
}

const char* name_of(synDataType type) {
  switch (type) {
    case syn_type_int8:
      return "i8";
    case syn_type_bf16:
      return "bf16";
    case syn_type_single:
      return "f32";
    case syn_type_int16:
      return "i16";
    case syn_type_int32:
      return "i32";
    case syn_type_uint8:
      return "u8";
    case syn_type_fp16:
      return "f16";
    case syn_type_uint16:
      return "u16";
    case syn_type_uint32:
      return "u32";
    case syn_type_fp8_143:
      return "hf8";
    case syn_type_fp8_152:
      return "f8";
    case syn_type_int64:
      return "i64";
    case syn_type_uint64:
      return "u64";
    default:
      return "none";
  }
}

bool is_floating(synDataType type) {
  return type == syn_type_single || type == syn_type_bf16 || type == syn_type_fp16 || type == syn_type_fp8_143 ||
         type == syn_type_fp8_152;
}

}  // namespace synapse_emulator
