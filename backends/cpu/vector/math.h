// SPDX-License-Identifier: Apache-2.0
// Functions of one f32, written without branches so that loops over them become vector code. Errors are a few units in
// the last place; infinities, NaN and subnormal numbers come out as IEEE 754 would have them.
#pragma once

#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

inline float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t as_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
constexpr float kInfinity = __builtin_inff();

// The nearest integer, to even, of |x| < 2^22: adding 1.5 * 2^23 leaves no places after the point.
struct Nearest {
  float value;
  int32_t integer;
};
inline Nearest nearest(float x) {
  constexpr float kShift = 0x1.8p23f;
  const float shifted = x + kShift;
  return {shifted - kShift, static_cast<int32_t>(as_bits(shifted) - as_bits(kShift))};
}

inline float power_of_two(int32_t n) { return as_float(static_cast<uint32_t>(n + 127) << 23); }

// e^r - 1 for |r| <= ln(2) / 2.
inline float expm1_reduced(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}

// x = n ln 2 + r. ln 2 is split so that n times its first part is exact.
inline float reduce_exp(float x, Nearest n) { return (x - n.value * 0.693359375f) - n.value * -2.12194440e-4f; }
constexpr float kLog2e = 1.44269504088896341f;

inline float exp_value(float x) {
  x = x < -104.0f ? -104.0f : x;  // written so that NaN stays
  x = x > 89.0f ? 89.0f : x;
  const Nearest n = nearest(x * kLog2e);
  const int32_t half = n.integer >> 1;  // 2^n itself may be no normal number
  return (1.0f + expm1_reduced(reduce_exp(x, n))) * power_of_two(half) * power_of_two(n.integer - half);
}

inline float expm1_value(float value) {
  float x = value < -30.0f ? -30.0f : value;
  x = x > 89.0f ? 89.0f : x;
  const Nearest n = nearest(x * kLog2e);
  const float scale = power_of_two(n.integer - 1);  // half of 2^n, since 2^128 is too large
  const float result = (scale * expm1_reduced(reduce_exp(x, n)) + (scale - 0.5f)) * 2.0f;
  return value == 0.0f ? value : result;
}

inline float log_value(float x) {
  const bool small = x < 0x1p-126f;
  const uint32_t bits = as_bits(small ? x * 0x1p23f : x);
  // A mantissa in [sqrt(1/2), sqrt(2)): 0x3F3504F3 is sqrt(1/2).
  const int32_t exponent = static_cast<int32_t>(bits - 0x3F3504F3u) >> 23;
  const float m = as_float(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float n = static_cast<float>(exponent) - (small ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  float result = p * m * square + n * -2.12194440e-4f - 0.5f * square + m + n * 0.693359375f;
  result = x == kInfinity ? x : result;
  result = x == 0.0f ? -kInfinity : result;
  return x >= 0.0f ? result : __builtin_nanf("");
}

inline float log1p_value(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;  // what rounding took away from 1 + x
  const float result = log_value(u) + lost;
  const bool plain = u == 0.0f || u == kInfinity;
  return u == 1.0f ? x : (plain ? log_value(u) : result);
}

// A quotient of polynomials on the interval outside of which tanh rounds to 1.
inline float tanh_value(float value) {
  float x = value > 7.90531110763549805f ? 7.90531110763549805f : value;
  x = x < -7.90531110763549805f ? -7.90531110763549805f : x;
  const float s = x * x;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  const float magnitude = __builtin_fabsf(value);
  return magnitude < 0.0004f ? value : x * p / q;
}

// A quotient of polynomials on the interval outside of which erf rounds to 1.
inline float erf_value(float value) {
  float x = value > 4.0f ? 4.0f : value;
  x = x < -4.0f ? -4.0f : x;
  const float s = x * x;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  const float result = x * (p / q);  // in this order, since x * p may be subnormal
  const float below = result > 1.0f ? 1.0f : result;
  return below < -1.0f ? -1.0f : below;
}

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
  return (k & 2) ? -result : result;
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
