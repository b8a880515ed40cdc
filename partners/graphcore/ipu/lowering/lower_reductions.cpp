// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <popops/Reduce.hpp>
#include <poputil/VertexTemplates.hpp>

#include "ipu/lowering/lines.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using backend::fail;

// What a reduction of nothing is.
void fill_neutral(Lowering& lowering, const Tensor& out, const std::string& op, const std::string& place) {
  if (op == "reduce_sum") return lowering.fill(out, 0, 0, place);
  const bool low = op == "reduce_max";
  const double infinity = std::numeric_limits<double>::infinity();
  int64_t integer = low ? std::numeric_limits<int64_t>::lowest() : std::numeric_limits<int64_t>::max();
  if (out.elementType() == poplar::INT)
    integer = low ? std::numeric_limits<int32_t>::lowest() : std::numeric_limits<int32_t>::max();
  if (out.elementType() == poplar::UNSIGNED_INT) integer = low ? 0 : std::numeric_limits<uint32_t>::max();
  if (out.elementType() == poplar::BOOL) integer = low ? 0 : 1;
  lowering.fill(out, low ? -infinity : infinity, integer, place);
}

// The reduced axes last, and the extents of the others.
Tensor axes_last(const Tensor& in, const Shape& axes, std::vector<size_t>& kept) {
  std::vector<unsigned> order;
  for (unsigned i = 0; i < in.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i), kept.push_back(in.dim(i));
  for (const int64_t axis : axes) order.push_back(static_cast<unsigned>(axis));
  return in.dimShuffle(order);
}

}  // namespace

void lower_reduction(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const Tensor& in = work.inputs.at(0);
  Tensor& out = work.outputs[0];
  const std::string place = node.place();
  const Shape& axes = node.integers("axes");
  const std::vector<size_t> shape = extents_of(node.output().shape);
  const poplar::Type type = in.elementType();
  if (in.numElements() == 0) {
    out = lowering.variable(type, shape, place);
    return fill_neutral(lowering, out, node.op(), place);
  }
  if (axes.empty()) {
    out = in;
    return;
  }
  if (type == poplar::FLOAT || type == poplar::HALF || type == poplar::INT || type == poplar::UNSIGNED_INT) {
    const popops::Operation operation = node.op() == "reduce_sum"   ? popops::Operation::ADD
                                        : node.op() == "reduce_max" ? popops::Operation::MAX
                                                                    : popops::Operation::MIN;
    out = popops::reduce(lowering.graph(), in, type, {axes.begin(), axes.end()}, operation, lowering.program(), place);
    return;
  }
  if (type == poplar::LONGLONG) {
    std::vector<size_t> kept;
    const Tensor moved = axes_last(in, axes, kept);
    size_t count = 1;
    for (const size_t extent : kept) count *= extent;
    const Lines lines = lines_of(lowering, count, in.numElements() / count, lowering.graph().getTarget());
    const Tensor from = line_variable(lowering, lines, type, lines.length, place);
    lowering.copy(lowering.reshaped(moved, from.shape(), place), from, place);
    const Tensor to = line_variable(lowering, lines, type, 1, place);
    add_vertices(lowering, lines, "ReduceLines<long long>", place, [&](const auto& vertex, const Lines::Part& part) {
      lowering.graph().connect(vertex["in"], part_of(from, part));
      lowering.graph().connect(vertex["out"], part_of(to, part));
      lowering.graph().setInitialValue(vertex["length"], lines.length);
      lowering.graph().setInitialValue(vertex["operation"], node.op() == "reduce_sum"   ? 0
                                                            : node.op() == "reduce_max" ? 1
                                                                                        : 2);
    });
    out = to.reshape(shape);
    return;
  }
  if (node.op() == "reduce_sum" && type != poplar::BOOL)
    fail(TRANSOM_UNSUPPORTED, "{}: popops sums no {}", place, type.toString());
  // Small integers and bools, as int.
  const Tensor wide = lowering.cast(in, poplar::INT, place);
  const popops::Operation operation = node.op() == "reduce_sum"   ? popops::Operation::ADD
                                      : node.op() == "reduce_max" ? popops::Operation::MAX
                                                                  : popops::Operation::MIN;
  out = lowering.cast(popops::reduce(lowering.graph(), wide, poplar::INT, {axes.begin(), axes.end()}, operation,
                                     lowering.program(), place),
                      type, place);
}

}  // namespace transom::ipu
