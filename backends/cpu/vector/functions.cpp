// SPDX-License-Identifier: Apache-2.0
// Functions of one floating number: own polynomials for f32, the C library for f64.
#include <math.h>

#include "cpu/vector/maps.h"
#include "cpu/vector/math.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// One struct a function: `single` for f32, `wide` for f64.
#define TRANSOM_FUNCTION(Name, single, wide)                   \
  struct Name {                                                \
    template <typename T>                                      \
    static T apply(T x) {                                      \
      if constexpr (sizeof(T) == sizeof(float)) return single; \
      else return wide;                                        \
    }                                                          \
  };
TRANSOM_FUNCTION(Exp, exp_value(x), exp(x))
TRANSOM_FUNCTION(Expm1, expm1_value(x), expm1(x))
TRANSOM_FUNCTION(Log, log_value(x), log(x))
TRANSOM_FUNCTION(Log1p, log1p_value(x), log1p(x))
TRANSOM_FUNCTION(Sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))
TRANSOM_FUNCTION(Rsqrt, 1.0f / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x))
TRANSOM_FUNCTION(Tanh, tanh_value(x), tanh(x))
TRANSOM_FUNCTION(Erf, erf_value(x), erf(x))
TRANSOM_FUNCTION(Floor, __builtin_floorf(x), __builtin_floor(x))
TRANSOM_FUNCTION(Ceil, __builtin_ceilf(x), __builtin_ceil(x))
TRANSOM_FUNCTION(Round, __builtin_rintf(x), __builtin_rint(x))
#undef TRANSOM_FUNCTION

// The reduction of the argument is good below this; the C library takes the rest.
constexpr float kLargestAngle = 0x1p22f;

template <int Quadrant>
void sine_f32(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<float*>(y);
  auto* x = static_cast<const float*>(a);
  int large = 0;
  TRANSOM_SIMD_REDUCE(|, large)
  for (size_t i = 0; i < n; ++i) large |= !(__builtin_fabsf(x[i]) < kLargestAngle);
  // Each by itself, so that a value does not depend on its neighbours in the tile.
  const auto one = [](float value) {
    if (__builtin_fabsf(value) < kLargestAngle) return sine_value(value, Quadrant);
    return Quadrant ? cosf(value) : sinf(value);
  };
  if (large) {
    for (size_t i = 0; i < n; ++i) out[i] = one(x[i]);
    return;
  }
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = sine_value(x[i], Quadrant);
}

template <int Quadrant>
void sine_f64(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<double*>(y);
  auto* x = static_cast<const double*>(a);
  for (size_t i = 0; i < n; ++i) out[i] = Quadrant ? cos(x[i]) : sin(x[i]);
}

template <typename Op>
void fill_function(VectorKernels& kernels, UnaryOp op) {
  kernels.unary[op][kF32] = map1<Op, float>;
  kernels.unary[op][kF64] = map1<Op, double>;
}

}  // namespace

void fill_functions(VectorKernels& kernels) {
  fill_function<Exp>(kernels, kExp);
  fill_function<Expm1>(kernels, kExpm1);
  fill_function<Log>(kernels, kLog);
  fill_function<Log1p>(kernels, kLog1p);
  fill_function<Sqrt>(kernels, kSqrt);
  fill_function<Rsqrt>(kernels, kRsqrt);
  fill_function<Tanh>(kernels, kTanh);
  fill_function<Erf>(kernels, kErf);
  fill_function<Floor>(kernels, kFloor);
  fill_function<Ceil>(kernels, kCeil);
  fill_function<Round>(kernels, kRound);
  kernels.unary[kSin][kF32] = sine_f32<0>;
  kernels.unary[kCos][kF32] = sine_f32<1>;
  kernels.unary[kSin][kF64] = sine_f64<0>;
  kernels.unary[kCos][kF64] = sine_f64<1>;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
