// SPDX-License-Identifier: Apache-2.0
// Element-wise primitives. All operands have one shape, and so has the result.
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

size_t rank_of(const Value& x) { return x.shape.size(); }

void expect_floating(const Value& x) {
  if (!is_floating(x.element)) unsupported("no kernel does it on integers");
}

// Arithmetic of u8 and i8 wraps, which kernels do not promise.
void expect_arithmetic(const Value& x) {
  if (x.element == Element::kI8 || x.element == Element::kU8) unsupported("no kernel computes in 8 bits");
}

Value is_zero(Emitter& emit, const Value& x) {
  return emit.compare("equal_fwd", x, emit.number(x.element, 0, rank_of(x)));
}

// ---- one operand

template <const char* const& name>
Values floating(const Node&, Emitter& emit, const Values& in) {
  expect_floating(in[0]);
  return {emit.unary(name, in[0])};
}

template <const char* const& name>
Values numeric(const Node&, Emitter& emit, const Values& in) {
  expect_arithmetic(in[0]);
  return {emit.unary(name, in[0])};
}

Values sign(const Node&, Emitter& emit, const Values& in) {
  expect_arithmetic(in[0]);
  const auto number = [&](double value) { return emit.number(in[0].element, value, rank_of(in[0])); };
  // x + 0 is x for NaN, and +0 for -0.
  const Value zero_or_nan = emit.binary("add_fwd", in[0], number(0));
  const Value below = emit.where(emit.compare("less_fwd", in[0], number(0)), number(-1), zero_or_nan);
  return {emit.where(emit.compare("greater_fwd", in[0], number(0)), number(1), below)};
}

Values round(const Node&, Emitter& emit, const Values& in) {
  expect_floating(in[0]);
  return {emit.node(Emitter::typed("round_fwd", in[0].element), {in[0]}, in[0].element, in[0].shape,
                    synRoundParams{1})};  // halves to even
}

Values is_finite(const Node&, Emitter& emit, const Values& in) {
  expect_floating(in[0]);
  return {emit.node(Emitter::typed("isfinite_fwd", in[0].element), {in[0]}, Element::kI8, in[0].shape)};
}

Values logical_not(const Node&, Emitter& emit, const Values& in) { return {is_zero(emit, in[0])}; }

// ---- two operands

template <const char* const& name>
Values arithmetic(const Node&, Emitter& emit, const Values& in) {
  expect_arithmetic(in[0]);
  return {emit.binary(name, in[0], in[1])};
}

template <const char* const& name>
Values floating_arithmetic(const Node&, Emitter& emit, const Values& in) {
  expect_floating(in[0]);
  return {emit.binary(name, in[0], in[1])};
}

template <const char* const& name>
Values comparison(const Node& node, Emitter& emit, const Values& in) {
  if (in[0].element == Element::kU8 || node.input(0).dtype == TRANSOM_INT8) unsupported("no kernel compares 8 bits");
  return {emit.compare(name, in[0], in[1])};
}

Values not_equal(const Node& node, Emitter& emit, const Values& in) {
  if (in[0].element == Element::kU8 || node.input(0).dtype == TRANSOM_INT8) unsupported("no kernel compares 8 bits");
  return {is_zero(emit, emit.compare("equal_fwd", in[0], in[1]))};
}

// Of bools by choice, of integers bit by bit.
template <const char* const& name>
Values logical(const Node& node, Emitter& emit, const Values& in) {
  const std::string_view op = node.op();
  if (node.input(0).dtype != TRANSOM_BOOL) {
    if (in[0].element != Element::kI32) unsupported("no kernel does it on these integers");
    return {emit.binary(name, in[0], in[1])};
  }
  const size_t rank = rank_of(in[0]);
  if (op == "logical_and") return {emit.where(in[0], in[1], emit.number(Element::kI8, 0, rank))};
  if (op == "logical_or") return {emit.where(in[0], emit.number(Element::kI8, 1, rank), in[1])};
  return {is_zero(emit, emit.compare("equal_fwd", in[0], in[1]))};
}

Values select(const Node&, Emitter& emit, const Values& in) { return {emit.where(in[0], in[1], in[2])}; }

Values cast(const Node& node, Emitter& emit, const Values& in) {
  const transom_dtype from = node.input(0).dtype, to = node.output().dtype;
  if (from == to) return {in[0]};
  if (to == TRANSOM_BOOL) return {is_zero(emit, is_zero(emit, in[0]))};
  // What does not fit wraps, which casts do not promise.
  if (to == TRANSOM_UINT8 || to == TRANSOM_INT8) unsupported("a cast to 8 bits");
  return {emit.cast(in[0], emit.element_of(to))};
}

#define NAME(op, guid) constexpr const char* const op##_guid = guid;
NAME(neg, "neg_fwd")
NAME(abs, "abs_fwd")
NAME(exp, "exp_fwd")
NAME(expm1, "expm1_fwd")
NAME(log, "log_fwd")
NAME(log1p, "log1p_fwd")
NAME(sqrt, "sqrt_fwd")
NAME(rsqrt, "rsqrt_fwd")
NAME(tanh, "tanh_fwd")
NAME(erf, "erf_fwd")
NAME(sin, "sin_fwd")
NAME(cos, "cos_fwd")
NAME(floor, "floor_fwd")
NAME(ceil, "ceil_fwd")
NAME(add, "add_fwd")
NAME(sub, "sub_fwd")
NAME(mul, "mult_fwd")
NAME(div, "div_fwd")
NAME(pow, "pow_fwd")
NAME(max, "max_fwd")
NAME(min, "min_fwd")
NAME(remainder, "rem_fwd")
NAME(equal, "equal_fwd")
NAME(less, "less_fwd")
NAME(less_equal, "less_equal_fwd")
NAME(greater, "greater_fwd")
NAME(greater_equal, "greater_equal_fwd")
NAME(bits_and, "bitwise_and_fwd") NAME(bits_or, "bitwise_or_fwd") NAME(bits_xor, "bitwise_xor_fwd")
#undef NAME

}  // namespace

void add_elementwise_lowerings(LoweringTable& table) {
  table["neg"] = numeric<neg_guid>;
  table["abs"] = numeric<abs_guid>;
  table["exp"] = floating<exp_guid>;
  table["expm1"] = floating<expm1_guid>;
  table["log"] = floating<log_guid>;
  table["log1p"] = floating<log1p_guid>;
  table["sqrt"] = floating<sqrt_guid>;
  table["rsqrt"] = floating<rsqrt_guid>;
  table["tanh"] = floating<tanh_guid>;
  table["erf"] = floating<erf_guid>;
  table["sin"] = floating<sin_guid>;
  table["cos"] = floating<cos_guid>;
  table["floor"] = floating<floor_guid>;
  table["ceil"] = floating<ceil_guid>;
  table["round"] = round;
  table["sign"] = sign;
  table["is_finite"] = is_finite;
  table["logical_not"] = logical_not;
  table["add"] = arithmetic<add_guid>;
  table["sub"] = arithmetic<sub_guid>;
  table["mul"] = arithmetic<mul_guid>;
  table["max"] = arithmetic<max_guid>;
  table["min"] = arithmetic<min_guid>;
  table["div"] = floating_arithmetic<div_guid>;
  table["pow"] = floating_arithmetic<pow_guid>;
  table["remainder"] = floating_arithmetic<remainder_guid>;
  table["equal"] = comparison<equal_guid>;
  table["not_equal"] = not_equal;
  table["less"] = comparison<less_guid>;
  table["less_equal"] = comparison<less_equal_guid>;
  table["greater"] = comparison<greater_guid>;
  table["greater_equal"] = comparison<greater_equal_guid>;
  table["logical_and"] = logical<bits_and_guid>;
  table["logical_or"] = logical<bits_or_guid>;
  table["logical_xor"] = logical<bits_xor_guid>;
  table["select"] = select;
  table["cast"] = cast;
}

}  // namespace transom::hpu
