// SPDX-License-Identifier: Apache-2.0
// Element-wise trees as steps of programs: their types, where they lie, and what they cost.
#include <algorithm>

#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"
#include "popops/evaluate.h"
#include "popops/stored_tree.h"
#include "simulator/kernels.h"
#include "simulator/rounding.h"

namespace ipu_emulator {
namespace {

using poplar::Type;
using namespace popops::expr;

Type type_of(const Expr& e, const std::vector<poplar::Tensor>& ts) {
  switch (e.kind()) {
    case Expr::Kind::kConst:
      return static_cast<const Const&>(e).getType();
    case Expr::Kind::kCast:
      return static_cast<const Cast&>(e).getRHSType();
    case Expr::Kind::kPlaceHolder: {
      const unsigned index = static_cast<const PlaceHolder&>(e).getIndex();
      if (index == 0 || index > ts.size()) throw poplar::graph_error("expected a placeholder of a tensor of the call");
      return ts[index - 1].elementType();
    }
    case Expr::Kind::kUnary: {
      const auto& unary = static_cast<const UnaryOp&>(e);
      const UnaryOpType op = unary.getOpType();
      const Type argument = type_of(unary.getArg(), ts);
      return op == UnaryOpType::IS_FINITE || op == UnaryOpType::IS_NAN || op == UnaryOpType::IS_INF ? poplar::BOOL
                                                                                                    : argument;
    }
    case Expr::Kind::kBinary: {
      const auto& binary = static_cast<const BinaryOp&>(e);
      const Type left = type_of(binary.getLHS(), ts), right = type_of(binary.getRHS(), ts);
      if (left != right)
        throw poplar::graph_error("popops::map: expected operands of one type, found " + left.toString() + " and " +
                                  right.toString());
      switch (binary.getOpType()) {
        case BinaryOpType::EQUAL:
        case BinaryOpType::NOT_EQUAL:
        case BinaryOpType::LESS_THAN:
        case BinaryOpType::LESS_THAN_EQUAL:
        case BinaryOpType::GREATER_THAN:
        case BinaryOpType::GREATER_THAN_EQUAL:
          return poplar::BOOL;
        default:
          return left;
      }
    }
    case Expr::Kind::kTernary: {
      const auto& ternary = static_cast<const TernaryOp&>(e);
      const Type first = type_of(ternary.getArg0(), ts);
      if (first != type_of(ternary.getArg1(), ts))
        throw poplar::graph_error("popops::map: expected operands of one type in a selection");
      return first;
    }
  }
  return {};
}

// Instructions for a vector of elements. Functions such as exp have an instruction of the machine; erf is a polynomial.
uint64_t cost_of(const Expr& e) {
  switch (e.kind()) {
    case Expr::Kind::kConst:
      return 0;
    case Expr::Kind::kPlaceHolder:
      return 1;
    case Expr::Kind::kCast:
      return 1 + cost_of(static_cast<const Cast&>(e).getLHS());
    case Expr::Kind::kUnary: {
      const auto& unary = static_cast<const UnaryOp&>(e);
      uint64_t cost = 1;
      switch (unary.getOpType()) {
        case UnaryOpType::EXPONENT:
        case UnaryOpType::LOGARITHM:
        case UnaryOpType::TANH:
        case UnaryOpType::SIGMOID:
        case UnaryOpType::SQRT:
        case UnaryOpType::RSQRT:
          cost = 4;
          break;
        case UnaryOpType::ERF:
        case UnaryOpType::SIN:
        case UnaryOpType::COS:
        case UnaryOpType::EXPONENT_MINUS_ONE:
        case UnaryOpType::LOGARITHM_ONE_PLUS:
          cost = 20;
          break;
        default:
          break;
      }
      return cost + cost_of(unary.getArg());
    }
    case Expr::Kind::kBinary: {
      const auto& binary = static_cast<const BinaryOp&>(e);
      const BinaryOpType op = binary.getOpType();
      const uint64_t cost = op == BinaryOpType::DIVIDE ? 4 : op == BinaryOpType::POWER ? 30 : 1;
      return cost + cost_of(binary.getLHS()) + cost_of(binary.getRHS());
    }
    case Expr::Kind::kTernary: {
      const auto& ternary = static_cast<const TernaryOp&>(e);
      return 2 + cost_of(ternary.getArg0()) + cost_of(ternary.getArg1()) + cost_of(ternary.getArg2());
    }
  }
  return 1;
}

// What a codelet is made from: alike trees are one.
std::string text_of(const Expr& e) {
  const auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  switch (e.kind()) {
    case Expr::Kind::kConst:
      return "c" + static_cast<const Const&>(e).getType().toString();
    case Expr::Kind::kPlaceHolder:
      return "_" + number(static_cast<const PlaceHolder&>(e).getIndex());
    case Expr::Kind::kCast: {
      const auto& cast = static_cast<const Cast&>(e);
      return "cast(" + text_of(cast.getLHS()) + " " + cast.getRHSType().toString() + ")";
    }
    case Expr::Kind::kUnary: {
      const auto& unary = static_cast<const UnaryOp&>(e);
      return "u" + number(unary.getOpType()) + "(" + text_of(unary.getArg()) + ")";
    }
    case Expr::Kind::kBinary: {
      const auto& binary = static_cast<const BinaryOp&>(e);
      return "b" + number(binary.getOpType()) + "(" + text_of(binary.getLHS()) + " " + text_of(binary.getRHS()) + ")";
    }
    case Expr::Kind::kTernary: {
      const auto& ternary = static_cast<const TernaryOp&>(e);
      return "t" + number(ternary.getOpType()) + "(" + text_of(ternary.getArg0()) + " " + text_of(ternary.getArg1()) +
             " " + text_of(ternary.getArg2()) + ")";
    }
  }
  return {};
}

const RegisterKernel kMapKernel("map", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
  expect_tensors(step, step.reads.size(), 1);
  const std::vector<poplar::Tensor> ts = step.reads;
  const poplar::Tensor out = step.writes[0];
  const size_t elements = out.numElements();
  const std::shared_ptr<const Expr> tree = read_tree(parameters);
  for (const poplar::Tensor& tensor : ts)
    Reader::expect(tensor.numElements() == elements || tensor.numElements() == 1, "tensors of a map of one size");
  Reader::expect(type_of(*tree, ts) == out.elementType(), "the type of its tree in the result of a map");
  return [=](Memory& memory) {
    std::vector<MapOperand> operands;
    std::vector<std::unique_ptr<Access>> inputs;
    for (const poplar::Tensor& tensor : ts) {
      inputs.push_back(std::make_unique<Access>(memory, tensor, true, false));
      operands.push_back(
          {tensor.elementType(), inputs.back()->as<std::byte>(), tensor.numElements() == 1 && elements != 1});
    }
    const Access result(memory, out, false, true);
    Rounding rounding(memory);
    evaluate(*tree, operands, out.elementType(), elements, result.as<std::byte>(), rounding);
  };
});

}  // namespace
}  // namespace ipu_emulator

namespace popops {

using namespace ipu_emulator;

poplar::Tensor map(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                   const poplar::OptionFlags& options) {
  if (ts.empty()) throw poplar::graph_error("popops::map: expected at least one tensor");
  // The result lies as the tensor that lies on most tiles: a variable of its own before a broadcast.
  const poplar::Tensor* like = nullptr;
  size_t most = 0;
  for (const poplar::Tensor& tensor : ts) {
    if (like && tensor.numElements() <= 1) continue;
    if (like && tensor.numElements() > like->numElements()) like = nullptr;
    const size_t runs = tensor.isContiguous() ? 1 + graph.state()->variables[tensor.view().variable].runs->size() : 1;
    if (!like || runs > most) like = &tensor, most = runs;
  }
  poplar::Tensor out = variable_like(graph, type_of(expr, ts), *like, debugContext.getPathName());
  mapWithOutput(graph, expr, ts, out, prog, debugContext, options);
  return out;
}

void mapWithOutput(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   const poplar::Tensor& out, poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                   const poplar::OptionFlags&) {
  if (!graph.state()->libraries.count("popops")) throw poplar::graph_error("expected popops::addCodelets first");
  const size_t elements = out.numElements();
  if (elements == 0) return;
  for (const poplar::Tensor& tensor : ts)
    if (tensor.numElements() != 1 && tensor.shape() != out.shape())
      throw poplar::graph_error("popops::map: expected tensors of shape " + out.shapeToString() +
                                " or of one element, found " + tensor.shapeToString());
  if (type_of(expr, ts) != out.elementType())
    throw poplar::graph_error("popops::map: expected a result of " + type_of(expr, ts).toString());
  const std::shared_ptr<const expr::Expr> tree(expr.clone());
  Operation operation;
  operation.name = debugContext.getPathName().empty() ? "map" : debugContext.getPathName() + "/map";
  operation.codelet = "map " + text_of(*tree);
  for (const poplar::Tensor& tensor : ts) operation.codelet += " " + tensor.elementType().toString();
  operation.reads = ts;
  operation.writes = {out};
  const uint64_t cost = 1 + cost_of(*tree), width = graph.getTarget().getVectorWidth(out.elementType());
  operation.cycles = [cost, width](uint64_t count) {
    return 60 + (count + width - 1) / std::max<uint64_t>(width, 1) * cost;
  };
  operation.kernel = "map";
  Writer parameters;
  write_tree(*tree, parameters);
  operation.parameters = std::move(parameters.bytes);
  add_operation(graph, prog, std::move(operation));
}

poplar::Tensor cast(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Type& dstType,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  return map(graph, expr::Cast(expr::_1, dstType), {src}, prog, {debugContext, "cast"});
}

}  // namespace popops
