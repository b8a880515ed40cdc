// SPDX-License-Identifier: Apache-2.0
// Operators of two or more numbers, element by element.
#include <limits>

#include "models/onnx/import/elementwise/broadcasting.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

template <BinaryFunction function>
Results binary(Call& call) {
  const auto [x, y] = operands(call);
  return {call.like(0, function(x, y))};
}

Results divide(Call& call) {
  const auto [x, y] = operands(call);
  return {call.like(0, call.type(0) == ElementType::kUInt64 ? unsigned_divide(x, y) : div(x, y))};
}

// The remainder with the sign of the divisor, or with fmod = 1 that of the dividend (C's fmod).
Results modulo(Call& call) {
  const auto [x, y] = operands(call);
  const ElementType type = call.type(0);
  if (type == ElementType::kUInt64) return {call.like(0, sub(x, mul(unsigned_divide(x, y), y)))};
  const bool as_c = call.integer("fmod", 0) != 0;
  if (is_floating(type)) {
    const Tensor a = wide(x), b = wide(y), zero = constant(0, a.dtype());
    Tensor rest = remainder(a, b);
    if (as_c)
      rest = mul(select(less(a, zero), neg(remainder(neg(a), abs(b))), remainder(a, abs(b))), constant(1, a.dtype()));
    return {call.like(0, cast(rest, x.dtype()))};
  }
  if (!as_c || is_unsigned(type)) return {call.like(0, remainder(x, y))};
  return {call.like(0, sub(x, mul(div(x, y), y)))};
}

Results power(Call& call) {
  auto [x, y] = operands(call);
  const bool x_floats = is_floating(call.type(0)), y_floats = is_floating(call.type(1));
  if (call.type(0) == ElementType::kUInt64 && y_floats) call.not_supported("a base of uint64 and a floating exponent");
  if (x_floats) {
    const DType dtype = wide_type(x.dtype());
    if (y.dtype() == DType::kFloat64 && dtype != DType::kFloat64)
      return {call.like(0, cast(pow(cast(x, DType::kFloat64), y), x.dtype()))};
    return {call.like(0, cast(pow(cast(x, dtype), cast(y, dtype)), x.dtype()))};
  }
  if (y_floats) return {call.like(0, cast(pow(cast(x, DType::kFloat64), cast(y, DType::kFloat64)), x.dtype()))};
  return {call.like(0, pow(x, cast(y, x.dtype())))};
}

Tensor larger(const Call& call, const Tensor& x, const Tensor& y) {
  return call.type(0) == ElementType::kUInt64 ? select(unsigned_less(x, y), y, x) : maximum(x, y);
}
Tensor smaller(const Call& call, const Tensor& x, const Tensor& y) {
  return call.type(0) == ElementType::kUInt64 ? select(unsigned_less(x, y), x, y) : minimum(x, y);
}

template <Tensor (*join)(const Call&, const Tensor&, const Tensor&)>
Results variadic(Call& call) {
  Tensor result = call.tensor(0);
  for (size_t i = 1; i < call.inputs(); ++i) {
    call.require(call.type(i) == call.type(0), "its inputs are of several types");
    result = join(call, result, call.tensor(i));
  }
  return {call.like(0, result)};
}

Tensor total(const Call& call, bool mean) {
  Tensor result = wide(call.tensor(0));
  for (size_t i = 1; i < call.inputs(); ++i) result = add(result, wide(call.tensor(i)));
  if (mean) result = result * (1.0 / static_cast<double>(call.inputs()));
  return cast(result, call.tensor(0).dtype());
}
Results sum_of(Call& call) { return {call.like(0, total(call, false))}; }
Results mean_of(Call& call) { return {call.like(0, total(call, true))}; }

Results clip(Call& call) {
  Tensor x = call.tensor(0);
  Tensor low, high;
  if (call.version() < 11) {
    // From version 6 on the limits are those of f32 where none are given. Narrower types do not reach them.
    const double most = static_cast<double>(std::numeric_limits<float>::max());
    const bool has_defaults = call.version() >= 6 && (x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64);
    if (call.attribute("min") || has_defaults) low = constant(call.number("min", -most), x.dtype());
    if (call.attribute("max") || has_defaults) high = constant(call.number("max", most), x.dtype());
  } else {
    if (call.has(1)) low = call.tensor(1);
    if (call.has(2)) high = call.tensor(2);
  }
  if (low.defined()) x = larger(call, x, low);
  if (high.defined()) x = smaller(call, x, high);
  return {call.like(0, x)};
}

Results bit_shift(Call& call) {
  const auto [x, places] = operands(call);
  const ElementType type = call.type(0);
  const std::string direction = call.text("direction", "");
  call.require(direction == "LEFT" || direction == "RIGHT", "direction must be LEFT or RIGHT");
  // In 64 bits, where a power of two of every place has room. What is shifted by all its bits or more is gone; to the
  // right, copies of the sign follow it.
  const int bits = info(type).bits;
  const Tensor wide_x = cast(x, DType::kInt64), wide_places = cast(places, DType::kInt64), zero = integer(0);
  const Tensor gone = logical_or(less(wide_places, zero), greater_equal(wide_places, integer(bits)));
  const Tensor inside = select(gone, zero, wide_places);
  const Tensor negative = less(wide_x, zero), ones = integer(-1);
  const bool is_signed = !is_unsigned(type);
  Tensor shifted, nothing = zero;
  if (direction == "LEFT") {
    shifted = mul(wide_x, pow(integer(2), inside));
  } else if (is_signed) {  // -1 - x has the bits of x turned round
    shifted = select(negative, sub(ones, shift_right_logical(sub(ones, wide_x), inside)),
                     shift_right_logical(wide_x, inside));
    nothing = select(negative, ones, zero);
  } else {
    shifted = shift_right_logical(wide_x, inside);
  }
  const Value result(ElementType::kInt64, select(gone, nothing, shifted));
  return {{type, type == ElementType::kUInt64 ? result.tensor : cast_to(result, type)}};
}

template <BinaryFunction function>
Results bitwise(Call& call) {
  const auto [x, y] = operands(call);
  return {call.like(0, function(x, y))};
}

Results bitwise_not(Call& call) {
  const Tensor& x = call.tensor(0);
  // All bits set: -1, which unsigned carriers hold as their largest number.
  const int64_t ones = x.dtype() == DType::kUInt8 ? 0xff : x.dtype() == DType::kUInt32 ? int64_t{0xffffffff} : -1;
  return {call.like(0, logical_xor(x, integers({ones}, {}, x.dtype())))};
}

}  // namespace

const RegisterOperators kArithmetic = {{"Add", binary<add>},
                                       {"Sub", binary<sub>},
                                       {"Mul", binary<mul>},
                                       {"Div", divide},
                                       {"Mod", modulo, 10},
                                       {"Pow", power},
                                       {"Max", variadic<larger>},
                                       {"Min", variadic<smaller>},
                                       {"Sum", sum_of},
                                       {"Mean", mean_of},
                                       {"Clip", clip},
                                       {"BitShift", bit_shift, 11},
                                       {"BitwiseAnd", bitwise<logical_and>, 18},
                                       {"BitwiseOr", bitwise<logical_or>, 18},
                                       {"BitwiseXor", bitwise<logical_xor>, 18},
                                       {"BitwiseNot", bitwise_not, 18}};

}  // namespace transom::onnx
