// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/elementwise/small_floats.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

struct Format {
  int mantissa;    // bits
  int lowest;      // exponent of the smallest normal number
  int highest;     // exponent of the largest number
  double largest;  // finite value
  bool has_infinity;
  bool has_nan = true;
  bool has_zero_sign = true;  // FNUZ types have one zero; the bits of -0 are NaN
};

Format format_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat8E4M3FN:
      return {3, -6, 8, 448, false};
    case ElementType::kFloat8E4M3FNUZ:
      return {3, -7, 7, 240, false, true, false};
    case ElementType::kFloat8E5M2:
      return {2, -14, 15, 57344, true};
    case ElementType::kFloat8E5M2FNUZ:
      return {2, -15, 15, 57344, false, true, false};
    case ElementType::kFloat4E2M1:
      return {1, 0, 2, 6, false, false};
    default:
      fail(ErrorKind::kInternal, "{} is no small float", name_of(type));
  }
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

float small_float_value(uint8_t bits, ElementType type) {
  if (type == ElementType::kFloat8E8M0)
    return bits == 0xff ? static_cast<float>(kNaN) : static_cast<float>(std::ldexp(1.0, bits - 127));
  const Format format = format_of(type);
  const int width = info(type).bits;
  const bool negative = bits >> (width - 1) & 1;
  const int fraction = bits & ((1 << format.mantissa) - 1);
  const int exponent = (bits & ((1 << (width - 1)) - 1)) >> format.mantissa;
  const int bias = 1 - format.lowest;
  const int top = (1 << (width - 1 - format.mantissa)) - 1;
  double value = 0;
  if (!format.has_zero_sign && negative && fraction == 0 && exponent == 0) value = kNaN;
  else if (format.has_infinity && exponent == top)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : kNaN;
  else if (type == ElementType::kFloat8E4M3FN && exponent == top && fraction == 7) value = kNaN;
  else if (exponent == 0) value = std::ldexp(fraction, format.lowest - format.mantissa);
  else value = std::ldexp((1 << format.mantissa) + fraction, exponent - bias - format.mantissa);
  return static_cast<float>(negative ? -value : value);
}

uint8_t small_float_bits(float value, ElementType type) {
  const int count = 1 << info(type).bits;
  int nan = 0;
  for (int bits = 0; bits < count; ++bits) {
    const float candidate = small_float_value(static_cast<uint8_t>(bits), type);
    if (std::isnan(candidate)) nan = bits;
    // Signs of zero count where the type has them.
    if (candidate == value && (std::signbit(candidate) == std::signbit(value) || bits + 1 == count))
      return static_cast<uint8_t>(bits);
  }
  if (value == 0) return 0;
  if (!std::isnan(value)) fail(ErrorKind::kInternal, "{} is no value of {}", value, name_of(type));
  if (type == ElementType::kFloat8E4M3FN || type == ElementType::kFloat8E5M2) {  // the quiet ones, with the sign
    const int quiet = type == ElementType::kFloat8E4M3FN ? 0x7f : 0x7e;
    return static_cast<uint8_t>(quiet | (std::signbit(value) ? 0x80 : 0));
  }
  return static_cast<uint8_t>(nan);
}

Tensor round_to_small_float(const Tensor& x, ElementType type, bool saturate) {
  const DType dtype = x.dtype();
  const auto number = [&](double value) { return constant(value, dtype); };
  const Tensor magnitude = abs(x);
  if (type == ElementType::kFloat8E8M0) {  // powers of two, rounded up to the next one where saturated
    fail(ErrorKind::kInternal, "a cast to float8e8m0 is not offered");
  }
  const Format format = format_of(type);
  // The distance of neighbouring values around x: one binade after the other, so that each is exact.
  Tensor step = number(std::ldexp(1.0, format.lowest - format.mantissa));
  for (int exponent = format.lowest + 1; exponent <= format.highest; ++exponent)
    step = select(greater_equal(magnitude, number(std::ldexp(1.0, exponent))),
                  number(std::ldexp(1.0, exponent - format.mantissa)), step);
  Tensor rounded = round(magnitude / step) * step;
  const Tensor infinite = equal(magnitude, number(std::numeric_limits<double>::infinity()));
  const Tensor beyond = logical_or(greater(rounded, number(format.largest)), infinite);
  const double too_large = saturate || !format.has_nan ? format.largest
                           : format.has_infinity       ? std::numeric_limits<double>::infinity()
                                                       : kNaN;
  rounded = select(beyond, number(too_large), rounded);
  // -0 keeps its sign: it is less than nothing, so the sign comes from a product.
  const Tensor negative = less(x, number(0));
  const Tensor with_sign = select(negative, neg(rounded), select(equal(x, number(0)), x, rounded));
  const Tensor nan = not_equal(x, x);
  return select(nan, format.has_nan ? x : number(format.largest), with_sign);
}

}  // namespace transom::onnx
