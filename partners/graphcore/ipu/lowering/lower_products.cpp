// SPDX-License-Identifier: Apache-2.0
// Matrix products, as grouped products of poplin.
#include <algorithm>
#include <numeric>
#include <poplin/MatMul.hpp>
#include <popops/ElementWise.hpp>
#include <popsparse/experimental/BlockSparseMatMul.hpp>
#include <poputil/VertexTemplates.hpp>

#include "ipu/device/ipu_config.h"
#include "ipu/lowering/lines.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

struct Operand {
  Tensor tensor;  // [G, rows, K]
  std::vector<size_t> batch, rows;
};

// Batch axes, then what is neither, then the contracted ones.
Operand operand(Lowering& lowering, const Tensor& tensor, const Shape& batch, const Shape& contract,
                const std::string& place) {
  Operand made;
  std::vector<unsigned> order;
  size_t groups = 1, rows = 1, inner = 1;
  for (const int64_t axis : batch) {
    order.push_back(static_cast<unsigned>(axis));
    made.batch.push_back(tensor.dim(order.back()));
    groups *= made.batch.back();
  }
  for (unsigned axis = 0; axis < tensor.rank(); ++axis) {
    const auto is = [&](const Shape& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
    if (is(batch) || is(contract)) continue;
    order.push_back(axis);
    made.rows.push_back(tensor.dim(axis));
    rows *= made.rows.back();
  }
  for (const int64_t axis : contract) {
    order.push_back(static_cast<unsigned>(axis));
    inner *= tensor.dim(order.back());
  }
  const Tensor moved = tensor.dimShuffle(order);
  // A matrix and its transpose are views; other orders are moved once.
  if (batch.size() <= 1 && made.rows.size() == 1 && contract.size() == 1)
    made.tensor = batch.empty() ? moved.expand({0}) : moved;
  else made.tensor = lowering.reshaped(moved, {groups, rows, inner}, place);
  return made;
}

// Products of integers, by codelets: a line of the result is a row of x.
Tensor integer_product(Lowering& lowering, const Tensor& x, const Tensor& y, const std::string& place) {
  const size_t groups = x.dim(0), rows = x.dim(1), inner = x.dim(2), columns = y.dim(1);
  const poplar::Type type = x.elementType();
  if (type != poplar::INT && type != poplar::LONGLONG)
    backend::fail(TRANSOM_UNSUPPORTED, "{}: no products of {}", place, type.toString());
  const Lines lines = lines_of(lowering, groups * rows, inner, lowering.graph().getTarget());
  const Tensor left = line_variable(lowering, lines, type, inner, place),
               out = line_variable(lowering, lines, type, columns, place);
  lowering.copy(lowering.reshaped(x, left.shape(), place), left, place);
  const Tensor right = lowering.dense(y, place).flatten();
  add_vertices(lowering, lines, poputil::templateVertex("IntegerProduct", type), place,
               [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                 lowering.graph().connect(vertex["left"], part_of(left, part));
                 lowering.graph().connect(vertex["right"], right);
                 lowering.graph().connect(vertex["out"], part_of(out, part));
                 lowering.graph().setInitialValue(vertex["first"], part.begin);
                 lowering.graph().setInitialValue(vertex["rows"], rows);
                 lowering.graph().setInitialValue(vertex["inner"], inner);
                 lowering.graph().setInitialValue(vertex["columns"], columns);
               });
  return out.reshape({groups, rows, columns});
}

Tensor product(Lowering& lowering, const Tensor& x, const Tensor& y, poplar::Type type, const std::string& place) {
  if (x.dim(2) == 0) {
    const Tensor made = lowering.variable(type, {x.dim(0), x.dim(1), y.dim(1)}, place);
    lowering.fill(made, 0, 0, place);
    return made;
  }
  if (x.elementType() != poplar::FLOAT && x.elementType() != poplar::HALF)
    return lowering.cast(integer_product(lowering, x, y, place), type, place);
  return poplin::matMulGrouped(lowering.graph(), x, y.transpose(), lowering.program(), type, place,
                               lowering.product_options());
}

// A product with the embeddings' table in parts of its vocabulary (SerializedLinear of Optimum Graphcore), so that a
// tile holds what one part needs at a time. Rows and columns are the same numbers as in one piece; sums over the
// vocabulary are added up in float.
Tensor serial_product(Lowering& lowering, const Tensor& x, const Tensor& y, poplar::Type type, const std::string& place,
                      size_t vocabulary) {
  const size_t parts = std::min<size_t>(ipu_config().embedding_serialization_factor, vocabulary);
  const bool by_rows = x.dim(1) == vocabulary, by_columns = !by_rows && y.dim(1) == vocabulary,
             by_sum = !by_rows && !by_columns && x.dim(2) == vocabulary;
  const bool real = x.elementType() == poplar::FLOAT || x.elementType() == poplar::HALF;
  if (parts < 2 || !real || (!by_rows && !by_columns && !by_sum)) return product(lowering, x, y, type, place);
  Tensor out;
  if (!by_sum) out = lowering.variable(type, {x.dim(0), x.dim(1), y.dim(1)}, place);
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = vocabulary * part / parts, end = vocabulary * (part + 1) / parts;
    const auto cut = [&](const Tensor& tensor, unsigned axis) { return tensor.slice(begin, end, axis); };
    const std::string name = fmt::format("{}/part {}", place, part);
    if (by_rows) lowering.copy(product(lowering, cut(x, 1), y, type, name), cut(out, 1), name);
    else if (by_columns) lowering.copy(product(lowering, x, cut(y, 1), type, name), cut(out, 2), name);
    else {
      namespace pe = popops::expr;
      const Tensor sum = product(lowering, cut(x, 2), cut(y, 2), poplar::FLOAT, name);
      out = out.valid() ? popops::map(lowering.graph(), pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::_2), {out, sum},
                                      lowering.program(), name)
                        : sum;
    }
  }
  return lowering.cast(out, type, place);
}

// x [1, rows, K] with the blocks of a weight [N, K] that are not zero.
Tensor block_product(Lowering& lowering, const Tensor& x, const Tensor& blocks, const BlockMask& mask, size_t columns,
                     poplar::Type type, const std::string& place) {
  namespace ps = popsparse::experimental;
  constexpr size_t kBlock = BlockMask::kBlock;
  const size_t rows = x.dim(1), inner = x.dim(2);
  if (mask.count == 0) {
    const Tensor made = lowering.variable(type, {1, rows, columns}, place);
    lowering.fill(made, 0, 0, place);
    return made;
  }
  Tensor left = x[0];
  const size_t whole = (rows + kBlock - 1) / kBlock * kBlock;
  if (whole != rows) {
    left = lowering.variable(x.elementType(), {whole, inner}, place);
    lowering.fill(left.slice(rows, whole, 0), 0, 0, place);
    lowering.copy(x[0], left.slice(0, rows, 0), place);
  }
  constexpr int kSize = static_cast<int>(kBlock);
  const bool half_partials = ipu_config().enable_half_partials && x.elementType() == poplar::HALF;
  const ps::BSMatMulParams params({static_cast<int>(whole), static_cast<int>(inner), static_cast<int>(columns)},
                                  {kSize, kSize, kSize}, mask.kept, true, x.elementType(), type,
                                  half_partials ? poplar::HALF : poplar::FLOAT);
  const Tensor out = ps::bsMatMul(lowering.graph(), params, lowering.program(), left, blocks, {}, place);
  return out.slice(0, rows, 0).expand({0});
}

}  // namespace

void lower_product(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const std::string place = node.place();
  const poplar::Type type = device_type(node.output().dtype);
  const std::vector<size_t> shape = extents_of(node.output().shape);
  const Tensor &x = work.inputs.at(0), &y = work.inputs.at(1);
  if (node.op() == "dot_general") {
    const Operand left = operand(lowering, x, node.integers("x_batch"), node.integers("x_contract"), place),
                  right = operand(lowering, y, node.integers("y_batch"), node.integers("y_contract"), place);
    work.outputs[0] = serial_product(lowering, left.tensor, right.tensor, type, place, work.vocabulary).reshape(shape);
    return;
  }
  // linear: x [..., K], w [N, K], b [N]
  const size_t columns = static_cast<size_t>(node.input(1).shape[0]),
               inner = static_cast<size_t>(node.input(1).shape[1]),
               rows = static_cast<size_t>(node.output().count()) / std::max<size_t>(1, columns);
  const Tensor flat = lowering.reshaped(x, {1, rows, inner}, place);
  const bool biased = work.inputs.size() > 2;
  // The bias is added before the sum is rounded.
  const poplar::Type sum = biased ? poplar::FLOAT : type;
  Tensor out = work.blocks ? block_product(lowering, flat, y, *work.blocks, columns, sum, place)
                           : serial_product(lowering, flat, y.expand({0}), sum, place, work.vocabulary);
  if (biased) {
    namespace pe = popops::expr;
    const Tensor bias = Lowering::broadcast(work.inputs[2].reshape({1, 1, columns}), out.shape());
    const pe::Any wide = pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::Cast(pe::_2, poplar::FLOAT));
    out = popops::map(lowering.graph(), pe::Cast(wide, type), {out, bias}, lowering.program(), place);
  }
  work.outputs[0] = out.reshape(shape);
}

}  // namespace transom::ipu
