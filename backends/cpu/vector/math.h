// SPDX-License-Identifier: Apache-2.0
// Functions of one f32, written without branches so that loops over them become vector code. Errors are a few units in
// the last place; infinities, NaN and subnormal numbers come out as IEEE 754 would have them.
//
// They are those of common/float_functions.inc, over floats or over what writes instructions (see codegen/ir.h):
// generated kernels have the same bits as these loops because they are made of the same lines.
#pragma once

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

inline float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t as_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float to_float(uint32_t x) { return static_cast<float>(static_cast<int32_t>(x)); }
inline uint32_t shift_right(uint32_t x, int places) { return x >> places; }
inline uint32_t shift_right_signed(uint32_t x, int places) {
  return static_cast<uint32_t>(static_cast<int32_t>(x) >> places);
}
template <typename T>
T select(bool condition, T x, T y) {
  return condition ? x : y;
}
inline float multiply_add(float x, float y, float z) { return x * y + z; }
inline float absolute(float x) { return __builtin_fabsf(x); }
constexpr float kInfinity = __builtin_inff();

#include "common/float_functions.inc"

// Sine (quadrant 0) or cosine (quadrant 1) of |x| < 2^22, reduced in f64: pi/2 in two parts leaves an error below
// 1e-17.
inline float sine_value(float value, int32_t quadrant) {
  const double x = static_cast<double>(value);
  constexpr double kShift = 0x1.8p52;
  const double shifted = x * 0.63661977236758134308 + kShift;
  const double n = shifted - kShift;
  const int32_t k = static_cast<int32_t>(n) + quadrant;
  const float r = static_cast<float>((x - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17);
  const float s = r * r;
  float odd = -1.9515295891e-4f;
  odd = odd * s + 8.3321608736e-3f;
  odd = odd * s + -1.6666654611e-1f;
  odd = odd * s * r + r;
  float even = 2.443315711809948e-5f;
  even = even * s + -1.388731625493765e-3f;
  even = even * s + 4.166664568298827e-2f;
  even = even * s * s - 0.5f * s + 1.0f;
  const float result = (k & 1) ? even : odd;
  const float turned = (k & 2) ? -result : result;
  return quadrant == 0 && value == 0.0f ? value : turned;  // -0 too
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
