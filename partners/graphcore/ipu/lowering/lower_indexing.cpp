// SPDX-License-Identifier: Apache-2.0
// Rows and windows at places that are known at run time.
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <poputil/VertexTemplates.hpp>

#include "ipu/lowering/lines.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

namespace pe = popops::expr;

// Indices within [0, limit], as unsigned int: no program leaves its memory.
Tensor clamped(Lowering& lowering, const Tensor& indices, int64_t limit, const std::string& place) {
  const auto bound = [&](int64_t value) -> pe::Any {
    if (indices.elementType() == poplar::LONGLONG) return pe::Const(static_cast<long long>(value));
    return pe::Const(static_cast<int>(value));
  };
  return popops::map(
      lowering.graph(),
      pe::Cast(pe::TernaryOp(pe::TernaryOpType::CLAMP, pe::_1, bound(0), bound(limit)), poplar::UNSIGNED_INT),
      {indices}, lowering.program(), place);
}

}  // namespace

void lower_gather(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const Tensor &x = work.inputs.at(0), &indices = work.inputs.at(1);
  const auto axis = static_cast<unsigned>(node.integer("axis"));
  const std::string place = node.place();
  const size_t rows = x.dim(axis);
  if (rows == 0) {  // there is nothing to take
    work.outputs[0] = lowering.variable(x.elementType(), extents_of(node.output().shape), place);
    return lowering.fill(work.outputs[0], 0, 0, place);
  }
  const size_t row = x.numElements() / rows, count = indices.numElements();
  // Rows first: [n, rest of x].
  const Tensor moved = x.dimRoll(axis, 0);
  const Tensor table = lowering.reshaped(moved, {rows, row}, place);
  const Tensor offsets =
      clamped(lowering, lowering.reshaped(indices, {count, 1}, place), static_cast<int64_t>(rows) - 1, place);
  Tensor out = popops::multiSlice(lowering.graph(), table, offsets, {0}, {1}, lowering.program(), popops::SlicePlan(),
                                  {}, place);
  // [indices..., rest of x] with the indices moved to where the axis was.
  std::vector<size_t> shape = indices.shape();
  for (unsigned i = 0; i < x.rank(); ++i)
    if (i != axis) shape.push_back(x.dim(i));
  out = out.reshape(shape);
  std::vector<unsigned> order;
  for (unsigned i = 0; i < axis; ++i) order.push_back(indices.rank() + i);
  for (unsigned i = 0; i < indices.rank(); ++i) order.push_back(i);
  for (unsigned i = indices.rank() + axis; i < out.rank(); ++i) order.push_back(i);
  work.outputs[0] = out.dimShuffle(order);
}

void lower_scatter(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const Tensor &x = work.inputs.at(0), &indices = work.inputs.at(1), &updates = work.inputs.at(2);
  const auto axis = static_cast<unsigned>(node.integer("axis"));
  const std::string place = node.place();
  const poplar::Type type = x.elementType();
  const size_t rows = x.dim(axis), row = x.numElements() / rows, count = indices.numElements();
  const Tensor rolled = x.dimRoll(axis, 0);
  // Sums of half are kept in float and rounded once.
  const poplar::Type sum = type == poplar::HALF ? poplar::FLOAT : type;
  if (sum != poplar::FLOAT && sum != poplar::LONGLONG && sum != poplar::INT && sum != poplar::UNSIGNED_INT)
    backend::fail(TRANSOM_UNSUPPORTED, "{}: no sums of {}", place, type.toString());
  Tensor table;  // [n, rest of x], a copy
  {
    const Tensor wide = lowering.cast(rolled, sum, place);
    table = lowering.dense(wide, place).reshape({rows, row});
  }
  if (count > 0) {
    std::vector<unsigned> order;
    for (unsigned i = 0; i < indices.rank(); ++i) order.push_back(axis + i);
    for (unsigned i = 0; i < updates.rank(); ++i)
      if (i < axis || i >= axis + indices.rank()) order.push_back(i);
    const Tensor rows_of =
        lowering.reshaped(lowering.cast(updates.dimShuffle(order), sum, place), {count, 1, row}, place);
    const Tensor offsets =
        clamped(lowering, lowering.reshaped(indices, {count, 1}, place), static_cast<int64_t>(rows) - 1, place);
    if (sum == poplar::FLOAT) {
      popops::multiUpdateAdd(lowering.graph(), table, rows_of, offsets, lowering.constant(sum, 1), {0}, {1},
                             lowering.program(), popops::SlicePlan(), {}, place);
    } else {  // integers: columns are lines of their own
      const Lines lines = lines_of(lowering, row, rows + count, lowering.graph().getTarget());
      const Tensor before = line_variable(lowering, lines, sum, rows, place),
                   added = line_variable(lowering, lines, sum, count, place);
      lowering.copy(table.transpose(), before, place);
      lowering.copy(rows_of.reshape({count, row}).transpose(), added, place);
      const Tensor flat_offsets = offsets.flatten();
      add_vertices(lowering, lines, poputil::templateVertex("AddAt", sum), place,
                   [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                     lowering.graph().connect(vertex["sums"], part_of(before, part));
                     lowering.graph().connect(vertex["added"], part_of(added, part));
                     lowering.graph().connect(vertex["offsets"], flat_offsets);
                     lowering.graph().setInitialValue(vertex["length"], rows);
                   });
      table = before.transpose();
    }
  }
  std::vector<size_t> shape = rolled.shape();
  work.outputs[0] = lowering.cast(lowering.reshaped(table, shape, place), type, place).dimRoll(0, axis);
}

void lower_dynamic_slice(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const bool update = node.op() == "dynamic_update_slice";
  const Tensor& x = work.inputs.at(0);
  const Tensor& starts = work.inputs.at(update ? 2 : 1);
  const std::vector<size_t> sizes = update ? work.inputs.at(1).shape() : extents_of(node.output().shape);
  const std::string place = node.place();
  if (x.rank() == 0) {
    work.outputs[0] = update ? work.inputs[1] : x;
    return;
  }
  std::vector<size_t> dims;
  std::vector<long long> limits;
  for (unsigned i = 0; i < x.rank(); ++i) {
    dims.push_back(i);
    limits.push_back(static_cast<long long>(x.dim(i) - sizes[i]));
  }
  const Tensor limit = lowering.graph().addConstant(poplar::LONGLONG, {limits.size()}, limits.data(), place);
  lowering.graph().setTileMapping(limit, 0);
  const Tensor offset = popops::map(
      lowering.graph(),
      pe::Cast(pe::TernaryOp(pe::TernaryOpType::CLAMP, pe::_1, pe::Const(static_cast<long long>(0)), pe::_2),
               poplar::UNSIGNED_INT),
      {starts, limit}, lowering.program(), place);
  if (!update) {
    work.outputs[0] = popops::dynamicSlice(lowering.graph(), x, offset, dims, sizes, lowering.program(), place);
    return;
  }
  work.outputs[0] = lowering.dense(x, place);
  popops::dynamicUpdate(lowering.graph(), work.outputs[0], work.inputs[1], offset, dims, sizes, lowering.program(),
                        place);
}

}  // namespace transom::ipu
