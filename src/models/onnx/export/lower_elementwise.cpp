// SPDX-License-Identifier: Apache-2.0
// Element by element: ONNX broadcasts, so that inputs stay as narrow as they are.
#include <cmath>

#include "base/error.h"
#include "models/onnx/export/lowering.h"

namespace transom::onnx {
namespace {

using Operands = std::vector<Operand>;

// A node of this operation on values of one type, in the shape to which they broadcast.
ValueId emit(GraphBuilder& builder, const std::string& operation, const std::vector<ValueId>& inputs, DType dtype,
             const WrittenAttributes& attributes = {}) {
  Extents shape;
  for (const ValueId input : inputs) shape = broadcast_shape(shape, builder.shape(input));
  return builder.node(operation, inputs, {dtype, shape}, attributes);
}

template <const char* name>
Operands same(const Lowering& l) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < l.node().inputs.size(); ++i) inputs.push_back(l.operand(i).value);
  return {{emit(l.builder, name, inputs, l.node().types[0].dtype), l.type().shape}};
}

Operands expm1(const Lowering& l) {  // tanh(x / 2) (e^x + 1), exact near 0
  const ValueId x = l.operand(0).value, one = l.builder.scalar(1, l.dtype()), half = l.builder.scalar(0.5, l.dtype());
  const auto make = [&](const char* name, std::vector<ValueId> in) { return emit(l.builder, name, in, l.dtype()); };
  const ValueId tanh = make("Tanh", {make("Mul", {x, half})});
  return {{make("Mul", {tanh, make("Add", {make("Exp", {x}), one})}), l.type().shape}};
}

Operands log1p(const Lowering& l) {  // with u = 1 + x: log(u) x / (u - 1), x where u is 1
  const ValueId x = l.operand(0).value, one = l.builder.scalar(1, l.dtype());
  const auto make = [&](const char* name, std::vector<ValueId> in) { return emit(l.builder, name, in, l.dtype()); };
  const ValueId u = make("Add", {x, one});
  const ValueId quotient = make("Div", {make("Mul", {make("Log", {u}), x}), make("Sub", {u, one})});
  const ValueId small = emit(l.builder, "Equal", {u, one}, DType::kBool);
  return {{make("Where", {small, x, quotient}), l.type().shape}};
}

Operands rsqrt(const Lowering& l) {
  const ValueId root = emit(l.builder, "Sqrt", {l.operand(0).value}, l.dtype());
  return {{emit(l.builder, "Reciprocal", {root}, l.dtype()), l.type().shape}};
}

Operands is_finite(const Lowering& l) {
  const ValueId x = l.operand(0).value;
  const ValueId infinite = emit(l.builder, "IsInf", {x}, DType::kBool),
                nan = emit(l.builder, "IsNaN", {x}, DType::kBool);
  const ValueId either = emit(l.builder, "Or", {infinite, nan}, DType::kBool);
  return {{emit(l.builder, "Not", {either}, DType::kBool), l.type().shape}};
}

Operands not_equal(const Lowering& l) {
  const ValueId equal = emit(l.builder, "Equal", {l.operand(0).value, l.operand(1).value}, DType::kBool);
  return {{emit(l.builder, "Not", {equal}, DType::kBool), l.type().shape}};
}

Operands remainder(const Lowering& l) {
  const ValueId x = l.operand(0).value, y = l.operand(1).value;
  const auto make = [&](const char* name, std::vector<ValueId> in) { return emit(l.builder, name, in, l.dtype()); };
  if (!is_floating(l.dtype())) return {{make("Mod", {x, y}), l.type().shape}};
  const ValueId floor = make("Floor", {make("Div", {x, y})});
  return {{make("Sub", {x, make("Mul", {floor, y})}), l.type().shape}};
}

template <const char* logical, const char* bitwise>
Operands logic(const Lowering& l) {
  const char* name = l.dtype() == DType::kBool ? logical : bitwise;
  return {{emit(l.builder, name, {l.operand(0).value, l.operand(1).value}, l.dtype()), l.type().shape}};
}

Operands cast(const Lowering& l) { return {{l.builder.cast(l.operand(0).value, l.type().dtype), l.type().shape}}; }

// A scalar. One that differs between the traces is an extent (of T tokens) or its reciprocal (of a mean).
Operands constant(const Lowering& l) {
  const DType dtype = l.type().dtype;
  if (!is_floating(dtype)) {
    const Extent value = l.extent("int_value");
    if (is_constant(value)) return {{l.builder.scalar(static_cast<double>(value[0]), dtype), {}}};
    return {{l.builder.cast(l.builder.reshape(l.builder.extent(value), {}), dtype), {}}};
  }
  const std::vector<double> values = l.real("value");
  const bool constant = std::all_of(values.begin(), values.end(),
                                    [&](double v) { return v == values[0] || (v != v && values[0] != values[0]); });
  if (constant) return {{l.builder.scalar(values[0], dtype), {}}};
  for (const bool reciprocal : {false, true}) {
    Extent extent;
    bool whole = true;
    for (const double value : values) {
      const double candidate = reciprocal ? 1 / value : value, rounded = std::round(candidate);
      whole = whole && std::abs(candidate - rounded) < 1e-6 * std::abs(rounded) && std::abs(rounded) < 1e15;
      if (whole) extent.push_back(static_cast<int64_t>(rounded));
    }
    if (!whole) continue;
    const ValueId number = l.builder.cast(l.builder.reshape(l.builder.extent(extent), {}), dtype);
    return {{reciprocal ? emit(l.builder, "Reciprocal", {number}, dtype) : number, {}}};
  }
  fail("export: {}a constant depends on the extents of the inputs: {}", scope_prefix_of(l.node()),
       fmt::join(values, ", "));
}

Operands iota(const Lowering& l) {
  const auto axis = static_cast<size_t>(l.integer("axis"));
  const ValueType type = l.type();
  const DType dtype = type.dtype == DType::kFloat32 ? DType::kFloat32 : DType::kInt64;
  const auto scalar = [&](ValueId value) { return l.builder.cast(l.builder.reshape(value, {}), dtype); };
  const ValueId range = l.builder.node(
      "Range", {l.builder.scalar(0, dtype), scalar(l.builder.extent(type.shape[axis])), l.builder.scalar(1, dtype)},
      {dtype, {type.shape[axis]}});
  Extents narrow(type.shape.size(), constant_extent(1));
  narrow[axis] = type.shape[axis];
  return {{l.builder.cast(l.builder.reshape(range, narrow), type.dtype), type.shape}};
}

Operands identity(const Lowering& l) { return {l.operand(0)}; }

Operands sigmoid(const Lowering& l) {
  return {{emit(l.builder, "Sigmoid", {l.operand(0).value}, l.dtype()), l.type().shape}};
}
Operands silu(const Lowering& l) {
  const ValueId x = l.operand(0).value;
  return {{emit(l.builder, "Mul", {x, emit(l.builder, "Sigmoid", {x}, l.dtype())}, l.dtype()), l.type().shape}};
}
Operands gelu(const Lowering& l) {
  return {{emit(l.builder, "Gelu", {l.operand(0).value}, l.dtype()), l.type().shape}};
}
Operands gelu_tanh(const Lowering& l) {
  return {{emit(l.builder, "Gelu", {l.operand(0).value}, l.dtype(), {{"approximate", std::string("tanh")}}),
           l.type().shape}};
}

#define NAMED(variable, text) constexpr char variable[] = text
NAMED(kNeg, "Neg");
NAMED(kAbs, "Abs");
NAMED(kSign, "Sign");
NAMED(kExp, "Exp");
NAMED(kLog, "Log");
NAMED(kSqrt, "Sqrt");
NAMED(kTanh, "Tanh");
NAMED(kErf, "Erf");
NAMED(kSin, "Sin");
NAMED(kCos, "Cos");
NAMED(kFloor, "Floor");
NAMED(kCeil, "Ceil");
NAMED(kRound, "Round");
NAMED(kNot, "Not");
NAMED(kAdd, "Add");
NAMED(kSub, "Sub");
NAMED(kMul, "Mul");
NAMED(kDiv, "Div");
NAMED(kPow, "Pow");
NAMED(kMax, "Max");
NAMED(kMin, "Min");
NAMED(kEqual, "Equal");
NAMED(kLess, "Less");
NAMED(kLessOrEqual, "LessOrEqual");
NAMED(kGreater, "Greater");
NAMED(kGreaterOrEqual, "GreaterOrEqual");
NAMED(kWhere, "Where");
NAMED(kAnd, "And");
NAMED(kOr, "Or");
NAMED(kXor, "Xor");
NAMED(kBitwiseAnd, "BitwiseAnd");
NAMED(kBitwiseOr, "BitwiseOr");
NAMED(kBitwiseXor, "BitwiseXor");
#undef NAMED

constexpr LoweringEntry kElementwiseEntries[] = {{"neg", same<kNeg>},
                                                 {"abs", same<kAbs>},
                                                 {"sign", same<kSign>},
                                                 {"exp", same<kExp>},
                                                 {"expm1", expm1},
                                                 {"log", same<kLog>},
                                                 {"log1p", log1p},
                                                 {"sqrt", same<kSqrt>},
                                                 {"rsqrt", rsqrt},
                                                 {"tanh", same<kTanh>},
                                                 {"erf", same<kErf>},
                                                 {"sin", same<kSin>},
                                                 {"cos", same<kCos>},
                                                 {"floor", same<kFloor>},
                                                 {"ceil", same<kCeil>},
                                                 {"round", same<kRound>},
                                                 {"logical_not", same<kNot>},
                                                 {"is_finite", is_finite},
                                                 {"add", same<kAdd>},
                                                 {"sub", same<kSub>},
                                                 {"mul", same<kMul>},
                                                 {"div", same<kDiv>},
                                                 {"pow", same<kPow>},
                                                 {"max", same<kMax>},
                                                 {"min", same<kMin>},
                                                 {"remainder", remainder},
                                                 {"logical_and", logic<kAnd, kBitwiseAnd>},
                                                 {"logical_or", logic<kOr, kBitwiseOr>},
                                                 {"logical_xor", logic<kXor, kBitwiseXor>},
                                                 {"equal", same<kEqual>},
                                                 {"not_equal", not_equal},
                                                 {"less", same<kLess>},
                                                 {"less_equal", same<kLessOrEqual>},
                                                 {"greater", same<kGreater>},
                                                 {"greater_equal", same<kGreaterOrEqual>},
                                                 {"select", same<kWhere>},
                                                 {"cast", cast},
                                                 {"constant", constant},
                                                 {"iota", iota},
                                                 {"stop_gradient", identity},
                                                 {"sigmoid", sigmoid},
                                                 {"silu", silu},
                                                 {"gelu", gelu},
                                                 {"gelu_tanh", gelu_tanh}};

}  // namespace

std::span<const LoweringEntry> elementwise_lowerings() { return kElementwiseEntries; }

}  // namespace transom::onnx
