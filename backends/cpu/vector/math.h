// SPDX-License-Identifier: Apache-2.0
// Functions of one f32, written without branches so that loops over them become vector code. Errors are a few units in
// the last place; infinities, NaN and subnormal numbers come out as IEEE 754 would have them.
//
// They are templates over the number, since the code generator runs them over values that write instructions (see
// codegen/ir.h): generated kernels have the same bits as these loops because they are made of the same lines. A product
// and a sum are rounded each by itself, so that all instruction sets have the same bits too; F(x) is a constant.
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

// The nearest integer, to even, of |x| < 2^22: adding 1.5 * 2^23 leaves no places after the point.
template <typename F>
struct Nearest {
  F value;
  decltype(as_bits(F(0.0f))) integer;
};
template <typename F>
Nearest<F> nearest(F x) {
  using Bits = decltype(as_bits(x));
  const F shift = F(0x1.8p23f), shifted = x + shift;
  return {shifted - shift, as_bits(shifted) - Bits(0x4B400000u)};
}

template <typename I>
auto power_of_two(I n) {
  return as_float((n + I(127u)) << 23);
}

// e^r - 1 for |r| <= ln(2) / 2.
template <typename F>
F expm1_reduced(F r) {
  F p = F(1.9875691500e-4f);
  p = multiply_add(p, r, F(1.3981999507e-3f));
  p = multiply_add(p, r, F(8.3334519073e-3f));
  p = multiply_add(p, r, F(4.1665795894e-2f));
  p = multiply_add(p, r, F(1.6666665459e-1f));
  p = multiply_add(p, r, F(5.0000001201e-1f));
  return multiply_add(p, r * r, r);
}

// x = n ln 2 + r. ln 2 is split so that n times its first part is exact.
template <typename F>
F reduce_exp(F x, const Nearest<F>& n) {
  return multiply_add(n.value, F(2.12194440e-4f), multiply_add(n.value, F(-0.693359375f), x));
}
constexpr float kLog2e = 1.44269504088896341f;

template <typename F>
F exp_value(F x) {
  x = select(x < F(-104.0f), F(-104.0f), x);  // written so that NaN stays
  x = select(x > F(89.0f), F(89.0f), x);
  const Nearest<F> n = nearest(x * F(kLog2e));
  const auto half = shift_right_signed(n.integer, 1);  // 2^n itself may be no normal number
  return (F(1.0f) + expm1_reduced(reduce_exp(x, n))) * power_of_two(half) * power_of_two(n.integer - half);
}

template <typename F>
F expm1_value(F value) {
  F x = select(value < F(-30.0f), F(-30.0f), value);
  x = select(x > F(89.0f), F(89.0f), x);
  const Nearest<F> n = nearest(x * F(kLog2e));
  const auto one = decltype(n.integer)(1u);
  const F scale = power_of_two(n.integer - one);  // half of 2^n, since 2^128 is too large
  const F result = multiply_add(scale, expm1_reduced(reduce_exp(x, n)), scale - F(0.5f)) * F(2.0f);
  return select(value == F(0.0f), value, result);
}

template <typename F>
F log_value(F x) {
  const auto small = x < F(0x1p-126f);
  const auto bits = as_bits(select(small, x * F(0x1p23f), x));
  using Bits = decltype(as_bits(x));
  // A mantissa in [sqrt(1/2), sqrt(2)): 0x3F3504F3 is sqrt(1/2).
  const Bits exponent = shift_right_signed(bits - Bits(0x3F3504F3u), 23);
  const F m = as_float(bits - (exponent << 23)) - F(1.0f);
  const F n = to_float(exponent) - select(small, F(23.0f), F(0.0f));
  F p = F(7.0376836292e-2f);
  p = multiply_add(p, m, F(-1.1514610310e-1f));
  p = multiply_add(p, m, F(1.1676998740e-1f));
  p = multiply_add(p, m, F(-1.2420140846e-1f));
  p = multiply_add(p, m, F(1.4249322787e-1f));
  p = multiply_add(p, m, F(-1.6668057665e-1f));
  p = multiply_add(p, m, F(2.0000714765e-1f));
  p = multiply_add(p, m, F(-2.4999993993e-1f));
  p = multiply_add(p, m, F(3.3333331174e-1f));
  const F square = m * m;
  F result = multiply_add(p * m, square, n * F(-2.12194440e-4f));
  result = multiply_add(F(-0.5f), square, result) + m;
  result = multiply_add(n, F(0.693359375f), result);
  result = select(x == F(kInfinity), x, result);
  result = select(x == F(0.0f), F(-kInfinity), result);
  return select(x >= F(0.0f), result, F(__builtin_nanf("")));
}

template <typename F>
F log1p_value(F x) {
  const F u = F(1.0f) + x;
  const F lost = (x - (u - F(1.0f))) / u;  // what rounding took away from 1 + x
  const F plain = log_value(u);
  const F result = select(u == F(0.0f), plain, select(u == F(kInfinity), plain, plain + lost));
  return select(u == F(1.0f), x, result);
}

// `result` >= 0 with the sign of `value`, whose magnitude is `magnitude`.
template <typename F>
F with_sign_of(F value, F magnitude, F result) {
  return as_float(as_bits(result) + (as_bits(value) - as_bits(magnitude)));
}

// e^2|x| - 1 divided by itself and 2: nothing cancels. Beyond 9.02 tanh rounds to 1.
template <typename F>
F tanh_value(F value) {
  const F magnitude = absolute(value);
  const F x = select(magnitude > F(9.5f), F(9.5f), magnitude);
  const F twice = x + x;
  const Nearest<F> n = nearest(twice * F(kLog2e));
  const F scale = power_of_two(n.integer);
  const F above = multiply_add(scale, expm1_reduced(reduce_exp(twice, n)), scale - F(1.0f));
  return select(magnitude < F(0.0004f), value, with_sign_of(value, magnitude, above / (above + F(2.0f))));
}

// 1 - 2^q(|x|), where 2^q(t) is 1 - erf(t): what is left to 1 is as accurate as the value is near 0. Beyond 4 erf
// rounds to 1. Even and odd powers apart, since each step waits for the one before it.
template <typename F>
F erf_value(F value) {
  const F magnitude = absolute(value);
  const F t = select(magnitude > F(4.0f), F(4.0f), magnitude), s = t * t;
  F even = F(1.335408793e-5f);
  even = multiply_add(even, s, F(9.129940008e-4f));
  even = multiply_add(even, s, F(2.314079922e-4f));
  even = multiply_add(even, s, F(-1.482770658e-1f));
  even = multiply_add(even, s, F(-1.627907035f));
  F odd = F(-1.697214940e-4f);
  odd = multiply_add(odd, s, F(-2.405018072e-3f));
  odd = multiply_add(odd, s, F(2.763202767e-2f));
  odd = multiply_add(odd, s, F(-9.184476254e-1f));
  const F q = multiply_add(odd, s, even * t);
  const Nearest<F> n = nearest(q);
  const F r = q - n.value, scale = power_of_two(n.integer);
  F p = F(1.546971715e-4f);  // (2^r - 1) / r
  p = multiply_add(p, r, F(1.339086686e-3f));
  p = multiply_add(p, r, F(9.618030827e-3f));
  p = multiply_add(p, r, F(5.550357105e-2f));
  p = multiply_add(p, r, F(2.402265108e-1f));
  p = multiply_add(p, r, F(6.931471880e-1f));
  return with_sign_of(value, magnitude, (F(1.0f) - scale) - scale * (p * r));
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
  const float turned = (k & 2) ? -result : result;
  return quadrant == 0 && value == 0.0f ? value : turned;  // -0 too
}

}  // namespace
}  // namespace transom::cpu::TRANSOM_LEVEL
