// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons, logic and selection for every lane type. Integers wrap; division by zero gives 0 for
// integers, since a trap would end the process.
#include <math.h>

#include "cpu/vector/maps.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

template <typename T>
constexpr bool kFloating = static_cast<T>(0.5) != T{0};
template <typename T>
constexpr bool kSigned = static_cast<T>(-1) < T{1};

// Wide enough that no sum, difference or product of two small integers overflows, and unsigned so that large ones wrap.
template <typename T>
struct WrapType {
  using type = T;
};
template <>
struct WrapType<int32_t> {
  using type = uint32_t;
};
template <>
struct WrapType<int64_t> {
  using type = uint64_t;
};
template <typename T>
using Wrap = typename WrapType<T>::type;

struct Add {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(static_cast<Wrap<T>>(x) + static_cast<Wrap<T>>(y));
  }
};
struct Sub {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(static_cast<Wrap<T>>(x) - static_cast<Wrap<T>>(y));
  }
};
struct Mul {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(static_cast<Wrap<T>>(x) * static_cast<Wrap<T>>(y));
  }
};
struct Div {
  template <typename T>
  static T apply(T x, T y) {
    if constexpr (kFloating<T>) return x / y;
    else if constexpr (kSigned<T>) {
      if (y == 0) return 0;
      if (y == -1) return Sub::apply<T>(0, x);
      return static_cast<T>(x / y);
    } else return y == 0 ? T{0} : static_cast<T>(x / y);
  }
};
struct Remainder {
  template <typename T>
  static T apply(T x, T y) {
    T rest;
    if constexpr (sizeof(T) == 4 && kFloating<T>) rest = fmodf(x, y);
    else if constexpr (kFloating<T>) rest = fmod(x, y);
    else if constexpr (kSigned<T>) rest = y == 0 || y == -1 ? T{0} : static_cast<T>(x % y);
    else return y == 0 ? T{0} : static_cast<T>(x % y);
    return rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
  }
};
struct Pow {
  template <typename T>
  static T apply(T x, T y) {
    // The exponents that a fusion with a constant one multiplies out, by the same products.
    if constexpr (sizeof(T) == 4 && kFloating<T>) return y == 2 ? x * x : y == 3 ? x * x * x : powf(x, y);
    else if constexpr (kFloating<T>) return pow(x, y);
    else {
      if (y < 0) return x == 1 ? T{1} : x == static_cast<T>(-1) ? static_cast<T>(y % 2 ? -1 : 1) : T{0};
      T result = 1;
      for (; y > 0; y = static_cast<T>(y / 2), x = Mul::apply<T>(x, x))
        if (y % 2) result = Mul::apply<T>(result, x);
      return result;
    }
  }
};
struct Max {
  template <typename T>
  static T apply(T x, T y) {
    const T larger = x > y ? x : y;  // y if either is NaN
    return x != x ? x : larger;
  }
};
struct Min {
  template <typename T>
  static T apply(T x, T y) {
    const T smaller = x < y ? x : y;
    return x != x ? x : smaller;
  }
};
struct And {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(x & y);
  }
};
struct Or {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(x | y);
  }
};
struct Xor {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};
struct Equal {
  template <typename T>
  static uint8_t apply(T x, T y) {
    return x == y;
  }
};
struct NotEqual {
  template <typename T>
  static uint8_t apply(T x, T y) {
    return x != y;
  }
};
struct Less {
  template <typename T>
  static uint8_t apply(T x, T y) {
    return x < y;
  }
};
struct LessEqual {
  template <typename T>
  static uint8_t apply(T x, T y) {
    return x <= y;
  }
};
struct Neg {
  template <typename T>
  static T apply(T x) {
    if constexpr (kFloating<T>) return -x;
    else return Sub::apply<T>(0, x);
  }
};
struct Abs {
  template <typename T>
  static T apply(T x) {
    if constexpr (sizeof(T) == 4 && kFloating<T>) return __builtin_fabsf(x);
    else if constexpr (kFloating<T>) return __builtin_fabs(x);
    else return x < 0 ? Sub::apply<T>(0, x) : x;
  }
};
struct Sign {
  template <typename T>
  static T apply(T x) {
    if constexpr (kFloating<T>) return x != x ? x : static_cast<T>((x > 0) - (x < 0));
    else return static_cast<T>((x > 0) - (x < 0));
  }
};
struct LogicalNot {
  template <typename T>
  static uint8_t apply(T x) {
    return x == T{0};
  }
};
struct IsFinite {
  template <typename T>
  static uint8_t apply(T x) {
    return x - x == T{0};
  }
};

// Greater is Less with the operands exchanged.
template <typename Op, typename T>
void compare_reversed(void* y, const void* a, const void* b, const void* c, size_t n) {
  map2<Op, T, uint8_t>(y, b, a, c, n);
}

template <typename T>
void select(void* y, const void* a, const void* b, const void* c, size_t n) {
  auto* out = static_cast<T*>(y);
  auto* condition = static_cast<const uint8_t*>(a);
  auto* x = static_cast<const T*>(b);
  auto* z = static_cast<const T*>(c);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = condition[i] ? x[i] : z[i];
}

void multiply_add(void* y, const void* a, const void* b, const void* c, size_t n) {
  auto* out = static_cast<float*>(y);
  auto* x = static_cast<const float*>(a);
  auto* z = static_cast<const float*>(b);
  auto* w = static_cast<const float*>(c);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * z[i] + w[i];
}

template <typename T>
void fill_lane(VectorKernels& kernels, Lane lane) {
  const auto binary = [&](BinaryOp op, TileFunction function) { kernels.binary[op][lane] = function; };
  binary(kAdd, map2<Add, T>);
  binary(kSub, map2<Sub, T>);
  binary(kMul, map2<Mul, T>);
  binary(kDiv, map2<Div, T>);
  binary(kPow, map2<Pow, T>);
  binary(kMax, map2<Max, T>);
  binary(kMin, map2<Min, T>);
  binary(kRemainder, map2<Remainder, T>);
  if constexpr (!kFloating<T>) {
    binary(kAnd, map2<And, T>);
    binary(kOr, map2<Or, T>);
    binary(kXor, map2<Xor, T>);
  }
  binary(kEqual, map2<Equal, T, uint8_t>);
  binary(kNotEqual, map2<NotEqual, T, uint8_t>);
  binary(kLess, map2<Less, T, uint8_t>);
  binary(kLessEqual, map2<LessEqual, T, uint8_t>);
  binary(kGreater, compare_reversed<Less, T>);
  binary(kGreaterEqual, compare_reversed<LessEqual, T>);
  kernels.select[lane] = select<T>;
  kernels.unary[kNeg][lane] = map1<Neg, T>;
  kernels.unary[kAbs][lane] = map1<Abs, T>;
  kernels.unary[kSign][lane] = map1<Sign, T>;
  kernels.unary[kLogicalNot][lane] = map1<LogicalNot, T, uint8_t>;
  kernels.unary[kIsFinite][lane] = map1<IsFinite, T, uint8_t>;
}

}  // namespace

void fill_arithmetic(VectorKernels& kernels) {
  fill_lane<uint8_t>(kernels, kU8);
  fill_lane<int8_t>(kernels, kI8);
  fill_lane<int32_t>(kernels, kI32);
  fill_lane<int64_t>(kernels, kI64);
  fill_lane<uint32_t>(kernels, kU32);
  fill_lane<float>(kernels, kF32);
  fill_lane<double>(kernels, kF64);
  kernels.multiply_add = multiply_add;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
