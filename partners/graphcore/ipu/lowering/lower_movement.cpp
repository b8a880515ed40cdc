// SPDX-License-Identifier: Apache-2.0
// What only moves elements: views where Poplar has them, copies where places are joined.
#include <algorithm>
#include <limits>
#include <poputil/TileMapping.hpp>

#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

Tensor slice(const Node& node, Tensor tensor) {
  const Shape &starts = node.integers("starts"), &limits = node.integers("limits"), &strides = node.integers("strides");
  for (unsigned axis = 0; axis < tensor.rank(); ++axis) {
    const int64_t stop = std::max(limits.at(axis), starts.at(axis));
    tensor = tensor.slice(static_cast<size_t>(starts[axis]), static_cast<size_t>(stop), axis);
    if (strides.at(axis) != 1) tensor = tensor.subSample(static_cast<unsigned>(strides[axis]), axis);
  }
  return tensor;
}

Tensor pad(Lowering& lowering, const Node& node, const Tensor& tensor) {
  const Tensor made = lowering.variable(tensor.elementType(), extents_of(node.output().shape), node.place());
  lowering.fill(made, node.number("value"), static_cast<int64_t>(node.number("value")), node.place());
  Tensor inside = made;
  const Shape& low = node.integers("low");
  for (unsigned axis = 0; axis < tensor.rank(); ++axis) {
    const auto begin = static_cast<size_t>(low.at(axis));
    inside = inside.slice(begin, begin + tensor.dim(axis), axis);
  }
  lowering.copy(tensor, inside, node.place());
  return made;
}

Tensor concatenate(Lowering& lowering, const Node& node, const std::vector<Tensor>& tensors) {
  const Tensor made =
      lowering.variable(device_type(node.output().dtype), extents_of(node.output().shape), node.place());
  const auto axis = static_cast<unsigned>(node.integer("axis"));
  size_t at = 0;
  for (const Tensor& tensor : tensors) {
    lowering.copy(tensor, made.slice(at, at + tensor.dim(axis), axis), node.place());
    at += tensor.dim(axis);
  }
  return made;
}

// Long ones would fill one tile.
void spread_constant(Lowering& lowering, const Tensor& constant) {
  constexpr size_t kShort = 64;
  if (constant.numElements() <= kShort) lowering.graph().setTileMapping(constant, 0);
  else poputil::mapTensorLinearly(lowering.graph(), constant);
}

}  // namespace

void lower_movement(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  Tensor& out = work.outputs[0];
  if (node.op() == "concatenate") {
    out = concatenate(lowering, node, work.inputs);
    return;
  }
  const Tensor& in = work.inputs.at(0);
  if (node.op() == "reshape") {
    out = lowering.reshaped(in, extents_of(node.output().shape), node.place());
  } else if (node.op() == "permute") {
    std::vector<unsigned> permutation;
    for (const int64_t axis : node.integers("permutation")) permutation.push_back(static_cast<unsigned>(axis));
    out = in.dimShuffle(permutation);
  } else if (node.op() == "broadcast") {
    out = Lowering::broadcast(in, extents_of(node.output().shape));
  } else if (node.op() == "slice") {
    out = slice(node, in);
  } else if (node.op() == "pad") {
    out = pad(lowering, node, in);
  } else {
    out = in;
    for (const int64_t axis : node.integers("axes")) out = out.reverse(static_cast<unsigned>(axis));
  }
}

void lower_constant(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const poplar::Type type = device_type(node.output().dtype);
  const std::vector<size_t> shape = extents_of(node.output().shape);
  if (node.op() == "constant") {
    if (node.has("value")) {
      work.outputs[0] = lowering.graph().addConstant(type, shape, node.number("value"), node.place());
    } else {
      work.outputs[0] =
          lowering.graph().addConstant(type, shape, static_cast<long long>(node.integer("int_value")), node.place());
    }
    spread_constant(lowering, work.outputs[0]);
    return;
  }
  const auto axis = static_cast<unsigned>(node.integer("axis"));
  std::vector<long long> indices(shape.at(axis));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<long long>(i);
  // Whole numbers that every type holds as they are, or rounds as a cast does.
  Tensor line = lowering.graph().addConstant(poplar::LONGLONG, {indices.size()}, indices.data(), node.place());
  spread_constant(lowering, line);
  line = lowering.cast(line, type, node.place());
  std::vector<size_t> beside(shape.size(), 1);
  beside[axis] = shape[axis];
  work.outputs[0] = Lowering::broadcast(line.reshape(beside), shape);
}

}  // namespace transom::ipu
