// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic, choice, and casts.
#include <limits>

#include "base/error.h"
#include "models/onnx/import/elementwise/broadcasting.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

Value truth(Tensor x) { return {ElementType::kBool, std::move(x)}; }

template <BinaryFunction function>
Results logical(Call& call) {
  const auto [x, y] = operands(call);
  call.require(x.dtype() == DType::kBool && y.dtype() == DType::kBool, "expected bool inputs");
  return {truth(function(x, y))};
}

Results logical_negation(Call& call) { return {truth(logical_not(call.tensor(0)))}; }

Results equality(Call& call) {
  const auto [x, y] = operands(call);
  return {truth(equal(x, y))};
}

enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
template <Order order>
Results comparison(Call& call) {
  const auto [x, y] = operands(call);
  if (call.type(0) == ElementType::kUInt64) {
    const bool swapped = order == Order::kGreater || order == Order::kLessEqual;
    const Tensor below = swapped ? unsigned_less(y, x) : unsigned_less(x, y);
    return {truth(order == Order::kLess || order == Order::kGreater ? below : logical_not(below))};
  }
  switch (order) {
    case Order::kLess:
      return {truth(less(x, y))};
    case Order::kLessEqual:
      return {truth(less_equal(x, y))};
    case Order::kGreater:
      return {truth(greater(x, y))};
    default:
      return {truth(greater_equal(x, y))};
  }
}

Results where(Call& call) {
  call.require(call.type(1) == call.type(2), "its inputs are of several types");
  return {call.like(1, select(call.tensor(0), call.tensor(1), call.tensor(2)))};
}

Results is_nan(Call& call) { return {truth(not_equal(call.tensor(0), call.tensor(0)))}; }

Results is_infinite(Call& call) {
  const Tensor& x = call.tensor(0);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor none = zeros(x.shape(), DType::kBool);
  const Tensor above = call.integer("detect_positive", 1) ? equal(x, constant(infinity, x.dtype())) : none;
  const Tensor below = call.integer("detect_negative", 1) ? equal(x, constant(-infinity, x.dtype())) : none;
  return {truth(logical_or(above, below))};
}

Value converted(const Call& call, ElementType type) {
  const Value& x = call.value(0);
  call.tensor(0);
  if (!info(type).carrier || type == ElementType::kFloat8E8M0)
    call.not_supported(fmt::format("a result of {}", name_of(type)));
  return cast_value(x, type, call.integer("saturate", 1) != 0);
}

ElementType type_named(const Call& call, int64_t number) {
  const ElementTypeInfo* type = find_element_type(number);
  if (!type) call.invalid(fmt::format("there is no element type {}", number));
  return type->type;
}

Results cast_operator(Call& call) {
  if (call.version() < 6) {
    const std::string name = call.text("to", "");
    for (int64_t number = 1; number <= 26; ++number) {
      const ElementTypeInfo* type = find_element_type(number);
      std::string upper(type ? type->name : "");
      for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      if (type && upper == name) return {converted(call, type->type)};
    }
    call.invalid("there is no element type of the name in `to`");
  }
  return {converted(call, type_named(call, call.integer("to")))};
}

Results cast_like(Call& call) { return {converted(call, call.type(1))}; }

}  // namespace

const RegisterOperators kLogic = {{"And", logical<logical_and>},
                                  {"Or", logical<logical_or>},
                                  {"Xor", logical<logical_xor>},
                                  {"Not", logical_negation},
                                  {"Equal", equality},
                                  {"Less", comparison<Order::kLess>},
                                  {"LessOrEqual", comparison<Order::kLessEqual>, 12},
                                  {"Greater", comparison<Order::kGreater>},
                                  {"GreaterOrEqual", comparison<Order::kGreaterEqual>, 12},
                                  {"Where", where, 9},
                                  {"IsNaN", is_nan, 9},
                                  {"IsInf", is_infinite, 10},
                                  {"Cast", cast_operator},
                                  {"CastLike", cast_like, 15}};

}  // namespace transom::onnx
