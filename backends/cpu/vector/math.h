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

// A quotient of polynomials on the interval outside of which tanh rounds to 1.
template <typename F>
F tanh_value(F value) {
  F x = select(value > F(7.90531110763549805f), F(7.90531110763549805f), value);
  x = select(x < F(-7.90531110763549805f), F(-7.90531110763549805f), x);
  const F s = x * x;
  F p = F(-2.76076847742355e-16f);
  p = multiply_add(p, s, F(2.00018790482477e-13f));
  p = multiply_add(p, s, F(-8.60467152213735e-11f));
  p = multiply_add(p, s, F(5.12229709037114e-08f));
  p = multiply_add(p, s, F(1.48572235717979e-05f));
  p = multiply_add(p, s, F(6.37261928875436e-04f));
  p = multiply_add(p, s, F(4.89352455891786e-03f));
  F q = F(1.19825839466702e-06f);
  q = multiply_add(q, s, F(1.18534705686654e-04f));
  q = multiply_add(q, s, F(2.26843463243900e-03f));
  q = multiply_add(q, s, F(4.89352518554385e-03f));
  const F magnitude = absolute(value);
  return select(magnitude < F(0.0004f), value, x * p / q);
}

// A quotient of polynomials on the interval outside of which erf rounds to 1.
template <typename F>
F erf_value(F value) {
  F x = select(value > F(4.0f), F(4.0f), value);
  x = select(x < F(-4.0f), F(-4.0f), x);
  const F s = x * x;
  F p = F(-2.72614225801306e-10f);
  p = multiply_add(p, s, F(2.77068142495902e-08f));
  p = multiply_add(p, s, F(-2.10102402082508e-06f));
  p = multiply_add(p, s, F(-5.69250639462346e-05f));
  p = multiply_add(p, s, F(-7.34990630326855e-04f));
  p = multiply_add(p, s, F(-2.95459980854025e-03f));
  p = multiply_add(p, s, F(-1.60960333262415e-02f));
  F q = F(-1.45660718464996e-05f);
  q = multiply_add(q, s, F(-2.13374055278905e-04f));
  q = multiply_add(q, s, F(-1.68282697438203e-03f));
  q = multiply_add(q, s, F(-7.37332916720468e-03f));
  q = multiply_add(q, s, F(-1.42647390514189e-02f));
  const F result = x * (p / q);  // in this order, since x * p may be subnormal
  const F below = select(result > F(1.0f), F(1.0f), result);
  return select(below < F(-1.0f), F(-1.0f), below);
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
