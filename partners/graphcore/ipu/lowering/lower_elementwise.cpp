// SPDX-License-Identifier: Apache-2.0
// Element-wise nodes and regions of them, as trees of popops.
#include <functional>
#include <map>
#include <popops/ElementWise.hpp>

#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using backend::fail;
namespace pe = popops::expr;
using pe::Any;
using pe::BinaryOpType;
using pe::TernaryOpType;
using pe::UnaryOpType;

constexpr size_t kLargestTree = 40;  // nodes of one codelet; its code lies on every tile

const std::map<std::string, UnaryOpType, std::less<>> kUnary = {{"neg", UnaryOpType::NEGATE},
                                                                {"abs", UnaryOpType::ABSOLUTE},
                                                                {"sign", UnaryOpType::SIGNUM},
                                                                {"exp", UnaryOpType::EXPONENT},
                                                                {"log", UnaryOpType::LOGARITHM},
                                                                {"expm1", UnaryOpType::EXPONENT_MINUS_ONE},
                                                                {"sqrt", UnaryOpType::SQRT},
                                                                {"log1p", UnaryOpType::LOGARITHM_ONE_PLUS},
                                                                {"rsqrt", UnaryOpType::RSQRT},
                                                                {"tanh", UnaryOpType::TANH},
                                                                {"erf", UnaryOpType::ERF},
                                                                {"sin", UnaryOpType::SIN},
                                                                {"cos", UnaryOpType::COS},
                                                                {"floor", UnaryOpType::FLOOR},
                                                                {"ceil", UnaryOpType::CEIL},
                                                                {"round", UnaryOpType::NEARBY_INT},
                                                                {"logical_not", UnaryOpType::LOGICAL_NOT},
                                                                {"is_finite", UnaryOpType::IS_FINITE}};

const std::map<std::string, BinaryOpType, std::less<>> kBinary = {{"add", BinaryOpType::ADD},
                                                                  {"sub", BinaryOpType::SUBTRACT},
                                                                  {"mul", BinaryOpType::MULTIPLY},
                                                                  {"div", BinaryOpType::DIVIDE},
                                                                  {"pow", BinaryOpType::POWER},
                                                                  {"max", BinaryOpType::MAXIMUM},
                                                                  {"min", BinaryOpType::MINIMUM},
                                                                  {"remainder", BinaryOpType::REMAINDER},
                                                                  {"logical_and", BinaryOpType::LOGICAL_AND},
                                                                  {"logical_or", BinaryOpType::LOGICAL_OR},
                                                                  {"logical_xor", BinaryOpType::NOT_EQUAL},
                                                                  {"equal", BinaryOpType::EQUAL},
                                                                  {"not_equal", BinaryOpType::NOT_EQUAL},
                                                                  {"less", BinaryOpType::LESS_THAN},
                                                                  {"less_equal", BinaryOpType::LESS_THAN_EQUAL},
                                                                  {"greater", BinaryOpType::GREATER_THAN},
                                                                  {"greater_equal", BinaryOpType::GREATER_THAN_EQUAL}};

Any number(transom_dtype dtype, double real, int64_t integer) {
  switch (dtype) {
    case TRANSOM_FLOAT32:
      return pe::Const(static_cast<float>(real));
    case TRANSOM_FLOAT16:
      return pe::ConstHalf(static_cast<float>(real));
    case TRANSOM_INT64:
      return pe::Const(static_cast<long long>(integer));
    case TRANSOM_INT32:
      return pe::Const(static_cast<int>(integer));
    case TRANSOM_UINT32:
      return pe::Const(static_cast<unsigned>(integer));
    case TRANSOM_UINT8:
      return pe::Const(static_cast<unsigned char>(integer));
    case TRANSOM_INT8:
      return pe::Const(static_cast<signed char>(integer));
    case TRANSOM_BOOL:
      return pe::Const(integer != 0);
    default:
      device_type(dtype);  // refuses it
      return pe::Const(0);
  }
}

// x is NaN where it is not itself.
Any nan_first(BinaryOpType op, const Any& x, const Any& y) {
  const auto is_nan = [](const Any& a) { return pe::UnaryOp(UnaryOpType::IS_NAN, a); };
  return pe::TernaryOp(TernaryOpType::SELECT, x,
                       pe::TernaryOp(TernaryOpType::SELECT, y, pe::BinaryOp(op, x, y), is_nan(y)), is_nan(x));
}

// The remainder of the machine has the sign of x; ours that of y.
Any remainder(transom_dtype dtype, const Any& x, const Any& y) {
  const Any zero = number(dtype, 0, 0), rest = pe::BinaryOp(BinaryOpType::REMAINDER, x, y);
  const auto negative = [&](const Any& a) { return pe::BinaryOp(BinaryOpType::LESS_THAN, a, zero); };
  const Any turns = pe::BinaryOp(BinaryOpType::LOGICAL_AND, pe::BinaryOp(BinaryOpType::NOT_EQUAL, rest, zero),
                                 pe::BinaryOp(BinaryOpType::NOT_EQUAL, negative(rest), negative(y)));
  return pe::TernaryOp(TernaryOpType::SELECT, pe::BinaryOp(BinaryOpType::ADD, rest, y), rest, turns);
}

Any expression_of(const Node& node, const std::vector<Any>& in) {
  const std::string& op = node.op();
  const transom_dtype dtype = node.input_count() ? node.input(0).dtype : TRANSOM_FLOAT32;
  const bool small = dtype == TRANSOM_UINT8 || dtype == TRANSOM_INT8;
  if (op == "cast") {
    const poplar::Type to = device_type(node.output().dtype);
    return pe::Cast(in.at(0), to);
  }
  if (op == "select") return pe::TernaryOp(TernaryOpType::SELECT, in.at(1), in.at(2), in.at(0));
  if (small && op != "equal" && op != "not_equal")
    fail(TRANSOM_UNSUPPORTED, "{}: popops has no {} of {}", node.place(), op, backend::dtype_name(dtype));
  if (const auto unary = kUnary.find(op); unary != kUnary.end()) return pe::UnaryOp(unary->second, in.at(0));
  const auto binary = kBinary.find(op);
  if (binary == kBinary.end()) fail(TRANSOM_UNSUPPORTED, "{}: the device has no such operation", node.place());
  const bool floating = backend::is_floating(dtype);
  if ((op == "max" || op == "min") && floating) return nan_first(binary->second, in.at(0), in.at(1));
  if (op == "remainder") return remainder(dtype, in.at(0), in.at(1));
  if (op.starts_with("logical_") && dtype != TRANSOM_BOOL)
    return pe::BinaryOp(op == "logical_and"  ? BinaryOpType::BITWISE_AND
                        : op == "logical_or" ? BinaryOpType::BITWISE_OR
                                             : BinaryOpType::BITWISE_XOR,
                        in.at(0), in.at(1));
  return pe::BinaryOp(binary->second, in.at(0), in.at(1));
}

// The tensors of one tree: its placeholders stand for them.
struct Operands {
  std::vector<Tensor> tensors;

  Any place(const Tensor& tensor) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (&tensors[i].view() == &tensor.view()) return pe::PlaceHolder(static_cast<unsigned>(i + 1));
    tensors.push_back(tensor);
    return pe::PlaceHolder(static_cast<unsigned>(tensors.size()));
  }
};

// A value of a region: a tensor, or a tree that has not been computed yet.
struct RegionValue {
  Tensor tensor;                       // valid: a tensor
  std::function<Any(Operands&)> tree;  // else
  size_t size = 0;                     // nodes of the tree
  std::vector<size_t> shape;
  poplar::Type type;
};

RegionValue of_tensor(const Tensor& tensor) { return {tensor, {}, 0, tensor.shape(), tensor.elementType()}; }

// Computes a tree: the values that it stands for.
Tensor computed(Lowering& lowering, const RegionValue& value, const std::string& name) {
  if (!value.tree) return value.tensor;
  Operands operands;
  const Any tree = value.tree(operands);
  bool whole = false;  // some tensor has the shape of the result
  for (Tensor& tensor : operands.tensors) {
    if (tensor.numElements() == 1 && tensor.shape() != value.shape) tensor = tensor.flatten();
    whole = whole || tensor.shape() == value.shape;
  }
  if (operands.tensors.empty()) operands.tensors.push_back(lowering.constant(poplar::FLOAT, 0).flatten());
  if (whole) return popops::map(lowering.graph(), tree, operands.tensors, lowering.program(), name);
  const Tensor out = lowering.variable(value.type, value.shape, name);
  popops::mapWithOutput(lowering.graph(), tree, operands.tensors, out, lowering.program(), name);
  return out;
}

RegionValue of_node(const Node& node, const std::vector<RegionValue*>& inputs) {
  std::vector<RegionValue> arguments;
  size_t size = 1;
  for (const RegionValue* input : inputs) {
    arguments.push_back(*input);
    size += input->size;
  }
  return {{},
          [node, arguments](Operands& operands) {
            std::vector<Any> in;
            for (const RegionValue& argument : arguments)
              in.push_back(argument.tree ? argument.tree(operands) : operands.place(argument.tensor));
            return expression_of(node, in);
          },
          size,
          extents_of(node.output().shape),
          device_type(node.output().dtype)};
}

RegionValue of_constant(const Node& node) {
  const bool real = node.has("value");
  const double value = real ? node.number("value") : static_cast<double>(node.integer("int_value"));
  const int64_t integer = real ? static_cast<int64_t>(node.number("value")) : node.integer("int_value");
  return {{},
          [dtype = node.output().dtype, value, integer](Operands&) { return number(dtype, value, integer); },
          1,
          extents_of(node.output().shape),
          device_type(node.output().dtype)};
}

size_t count_of(const std::vector<size_t>& shape) {
  size_t count = 1;
  for (const size_t extent : shape) count *= extent;
  return count;
}

}  // namespace

bool is_elementwise(const Node& node) {
  const std::string& op = node.op();
  if (op == "pow") return backend::is_floating(node.input(0).dtype);
  return op == "cast" || op == "select" || kUnary.count(op) || kBinary.count(op);
}

void lower_elementwise(Lowering& lowering, Work& work) {
  std::vector<RegionValue> inputs;
  for (const Tensor& tensor : work.inputs) inputs.push_back(of_tensor(tensor));
  std::vector<RegionValue*> pointers;
  for (RegionValue& input : inputs) pointers.push_back(&input);
  work.outputs[0] = computed(lowering, of_node(work.node, pointers), work.node.place());
}

void lower_fusion(Lowering& lowering, Work& work) {
  if (!work.region) fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a region", work.node.place());
  const transom_graph& graph = *work.region;
  const std::string place = work.node.place();
  std::vector<RegionValue> values(graph.values_count);
  std::vector<size_t> uses(graph.values_count, 0);
  for (const transom_node& node : plugin::Nodes(graph))
    for (size_t i = 0; i < node.inputs_count; ++i) ++uses.at(static_cast<size_t>(node.inputs[i]));
  for (size_t i = 0; i < graph.outputs_count; ++i) ++uses.at(static_cast<size_t>(graph.outputs[i]));
  for (size_t i = 0; i < graph.inputs_count; ++i)
    values.at(static_cast<size_t>(graph.inputs[i])) = of_tensor(work.inputs.at(i));
  for (const transom_node& c_node : plugin::Nodes(graph)) {
    const Node node(graph, c_node);
    RegionValue& result = values.at(static_cast<size_t>(c_node.outputs[0]));
    if (node.op() == "constant") {
      result = of_constant(node);
      continue;
    }
    std::vector<RegionValue*> inputs;
    for (size_t i = 0; i < c_node.inputs_count; ++i)
      inputs.push_back(&values.at(static_cast<size_t>(c_node.inputs[i])));
    if (node.op() == "reshape" || node.op() == "broadcast") {
      const std::vector<size_t> to = extents_of(node.output().shape);
      RegionValue& input = *inputs.at(0);
      if (input.tree && count_of(input.shape) > 1) input = of_tensor(computed(lowering, input, place));
      if (input.tree) {  // one number for all
        result = input;
        result.shape = to;
      } else if (node.op() == "reshape") {
        result = of_tensor(lowering.reshaped(input.tensor, to, place));
      } else {
        result = of_tensor(Lowering::broadcast(input.tensor, to));
      }
      continue;
    }
    if (!is_elementwise(node)) {  // random_bits, iota
      Work inner{node, {}, std::vector<Tensor>(1), nullptr};
      for (const RegionValue* input : inputs) inner.inputs.push_back(computed(lowering, *input, place));
      lower_whole(lowering, inner);
      result = of_tensor(inner.outputs[0]);
      continue;
    }
    result = of_node(node, inputs);
    // What several nodes read is computed once, unless it is cheap; and no codelet becomes too large.
    if ((uses[static_cast<size_t>(c_node.outputs[0])] > 1 && result.size > 3) || result.size > kLargestTree)
      result = of_tensor(computed(lowering, result, place));
  }
  for (size_t i = 0; i < graph.outputs_count; ++i) {
    RegionValue& value = values.at(static_cast<size_t>(graph.outputs[i]));
    if (value.tree) value = of_tensor(computed(lowering, value, place));
    work.outputs[i] = value.tensor;
  }
}

}  // namespace transom::ipu
