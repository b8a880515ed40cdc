// SPDX-License-Identifier: Apache-2.0
// What walks lines with codelets of our own: the first largest element, running sums, sorting.
#include <poputil/VertexTemplates.hpp>

#include "ipu/lowering/lines.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

// A type that the codelets have, which holds all numbers of this one.
poplar::Type line_type(poplar::Type type) {
  if (type == poplar::HALF) return poplar::FLOAT;
  if (type == poplar::FLOAT || type == poplar::INT || type == poplar::UNSIGNED_INT || type == poplar::LONGLONG)
    return type;
  return poplar::INT;
}

}  // namespace

void lower_lines(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const std::string &op = node.op(), place = node.place();
  const Tensor& in = work.inputs.at(0);
  const auto axis = op == "top_k" ? in.rank() - 1 : static_cast<unsigned>(node.integer("axis"));
  const size_t length = in.dim(axis);
  const poplar::Type type = line_type(in.elementType());
  poplar::Graph& graph = lowering.graph();
  const Tensor moved = lowering.cast(in, type, place).dimRoll(axis, in.rank() - 1);
  const Lines lines = lines_of(lowering, in.numElements() / length, length, graph.getTarget());
  const Tensor from = line_variable(lowering, lines, type, length, place);
  lowering.copy(lowering.reshaped(moved, from.shape(), place), from, place);
  // A result of `width` elements a line, with the axis where it was.
  const auto back = [&](const Tensor& tensor, size_t width, poplar::Type as) {
    std::vector<size_t> shape = moved.shape();
    shape.back() = width;
    return lowering.cast(tensor.reshape(shape).dimRoll(in.rank() - 1, axis), as, place);
  };
  if (op == "arg_max" || op == "arg_min") {
    const Tensor to = line_variable(lowering, lines, poplar::LONGLONG, 1, place);
    add_vertices(lowering, lines, poputil::templateVertex("FirstLargest", type), place,
                 [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                   graph.connect(vertex["in"], part_of(from, part));
                   graph.connect(vertex["out"], part_of(to, part));
                   graph.setInitialValue(vertex["length"], length);
                   graph.setInitialValue(vertex["smallest"], op == "arg_min");
                 });
    work.outputs[0] = to.reshape(extents_of(node.output().shape));
    return;
  }
  if (op == "cumulative_sum") {
    const Tensor to = line_variable(lowering, lines, type, length, place);
    add_vertices(lowering, lines, poputil::templateVertex("RunningSum", type), place,
                 [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                   graph.connect(vertex["in"], part_of(from, part));
                   graph.connect(vertex["out"], part_of(to, part));
                   graph.setInitialValue(vertex["length"], length);
                 });
    work.outputs[0] = back(to, length, in.elementType());
    return;
  }
  const bool top = op == "top_k";
  const size_t kept = top ? static_cast<size_t>(node.integer("k")) : length;
  const Tensor values = line_variable(lowering, lines, type, kept, place);
  const Tensor places = line_variable(lowering, lines, poplar::LONGLONG, kept, place);
  add_vertices(lowering, lines, poputil::templateVertex("SortLines", type), place,
               [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                 graph.connect(vertex["in"], part_of(from, part));
                 graph.connect(vertex["values"], part_of(values, part));
                 graph.connect(vertex["places"], part_of(places, part));
                 graph.setInitialValue(vertex["length"], length);
                 graph.setInitialValue(vertex["kept"], kept);
                 graph.setInitialValue(vertex["descending"], top || node.integer("descending") != 0);
                 graph.setInitialValue(vertex["nanLast"], !top);
               });
  work.outputs[0] = back(values, kept, in.elementType());
  work.outputs[1] = back(places, kept, poplar::LONGLONG);
}

void lower_integer_power(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const std::string place = node.place();
  const poplar::Type type = work.inputs.at(0).elementType();
  if (type != poplar::INT && type != poplar::LONGLONG)
    backend::fail(TRANSOM_UNSUPPORTED, "{}: powers of {}", place, type.toString());
  const Lines lines = lines_of(lowering, work.inputs[0].numElements(), 1, lowering.graph().getTarget());
  const Tensor out = line_variable(lowering, lines, type, 1, place);
  std::vector<Tensor> in;
  for (const Tensor& tensor : work.inputs) {
    in.push_back(line_variable(lowering, lines, type, 1, place));
    lowering.copy(lowering.reshaped(tensor, in.back().shape(), place), in.back(), place);
  }
  add_vertices(lowering, lines, poputil::templateVertex("IntegerPower", type), place,
               [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                 lowering.graph().connect(vertex["base"], part_of(in.at(0), part));
                 lowering.graph().connect(vertex["exponent"], part_of(in.at(1), part));
                 lowering.graph().connect(vertex["out"], part_of(out, part));
               });
  work.outputs[0] = out.reshape(extents_of(node.output().shape));
}

void lower_random(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const size_t count = static_cast<size_t>(node.output().count());
  poplar::Graph& graph = lowering.graph();
  const size_t blocks = (count + 3) / 4;  // of four words
  const Lines lines = lines_of(lowering, blocks, 4, graph.getTarget());
  const Tensor words = line_variable(lowering, lines, poplar::UNSIGNED_INT, 4, node.place());
  const Tensor key = lowering.dense(work.inputs.at(0), node.place(), 2);
  add_vertices(lowering, lines, "RandomBits", node.place(),
               [&](const poplar::VertexRef& vertex, const Lines::Part& part) {
                 graph.connect(vertex["key"], key);
                 graph.connect(vertex["out"], part_of(words, part));
                 graph.setInitialValue(vertex["first"], part.begin);
               });
  work.outputs[0] = words.flatten().slice(0, count).reshape(extents_of(node.output().shape));
}

}  // namespace transom::ipu
