// SPDX-License-Identifier: Apache-2.0
// Reading and writing at places that are known only at run time.
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

Shape around(const Shape& shape, size_t axis) {
  return {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
}

Values gather(const Node& node, Emitter& emit, const Values& in) {
  const Shape view = around(node.input(0).shape, static_cast<size_t>(node.integer("axis")));
  const Value indices = emit.reshape(in[1], {product(in[1].shape)});
  return {emit.reshape(emit.gather(emit.reshape(in[0], view), indices, 1), Emitter::canonical(node.output().shape))};
}

Values scatter_add(const Node& node, Emitter& emit, const Values& in) {
  if (!is_floating(in[0].element)) unsupported("no kernel adds integers at indices");
  const Shape view = around(node.input(0).shape, static_cast<size_t>(node.integer("axis")));
  const int64_t count = product(in[1].shape);
  const Value x = emit.reshape(emit.cast(in[0], Element::kF32), view);
  const Value updates = emit.reshape(emit.cast(in[2], Element::kF32), {view[0], count, view[2]});
  const Value indices = emit.broadcast(emit.reshape(emit.cast(in[1], Element::kI32), {1, count, 1}), updates.shape);
  const Value sums =
      emit.node("unsorted_scatter_add_fwd_f32", {x, indices, updates}, Element::kF32, view, synGatherParams{1});
  return {emit.reshape(emit.cast(sums, in[0].element), Emitter::canonical(node.output().shape))};
}

// The first place of a window along one axis, moved inwards until it fits; i32 [1].
Value clamped_start(Emitter& emit, const Value& starts, size_t axis, int64_t room) {
  const auto a = static_cast<int64_t>(axis);
  const Value start = emit.slice(emit.cast(starts, Element::kI32), {a}, {a + 1}, {1});
  const Value above = emit.binary("max_fwd", start, emit.number(Element::kI32, 0, 1));
  return emit.binary("min_fwd", above, emit.number(Element::kI32, static_cast<double>(room), 1));
}

Values dynamic_slice(const Node& node, Emitter& emit, const Values& in) {
  Shape shape = node.input(0).shape;
  const Shape sizes = node.integers("sizes");
  Value x = in[0];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (sizes[axis] == shape[axis]) continue;
    const Value start = clamped_start(emit, in[1], axis, shape[axis] - sizes[axis]);
    const Value places = emit.binary("add_fwd", emit.range(sizes[axis]), start);
    x = emit.gather(emit.reshape(x, around(shape, axis)), places, 1);
    shape[axis] = sizes[axis];
  }
  return {emit.reshape(x, Emitter::canonical(shape))};
}

// The update is spread over the whole extent axis by axis; a mask says where it counts.
Values dynamic_update_slice(const Node& node, Emitter& emit, const Values& in) {
  const Shape& shape = node.input(0).shape;
  Shape reached = node.input(1).shape;
  if (shape.size() > kMaximumRank) unsupported("an update of a tensor of more than five axes");
  Value update = in[1], mask;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t extent = shape[axis], size = reached[axis];
    if (size == extent) continue;
    const auto number = [&](int64_t value) { return emit.number(Element::kI32, static_cast<double>(value), 1); };
    const Value start = clamped_start(emit, in[2], axis, extent - size);
    const Value place = emit.binary("sub_fwd", emit.range(extent), start);
    const Value from = emit.compare("greater_equal_fwd", place, number(0));
    const Value inside =
        emit.where(from, emit.compare("less_fwd", place, number(size)), emit.number(Element::kI8, 0, 1));
    const Value kept = emit.binary("min_fwd", emit.binary("max_fwd", place, number(0)), number(size - 1));
    update = emit.gather(emit.reshape(update, around(reached, axis)), kept, 1);
    reached[axis] = extent;
    Shape along(shape.size(), 1);
    along[axis] = extent;
    const Value here = emit.reshape(inside, along);
    mask = mask.tensor == kNoTensor ? here : emit.where(mask, here, emit.number(Element::kI8, 0, shape.size()));
  }
  const Shape result = Emitter::canonical(shape);
  update = emit.reshape(update, result);
  if (mask.tensor == kNoTensor) return {update};
  return {emit.where(emit.broadcast(mask, result), update, in[0])};
}

}  // namespace

void add_indexing_lowerings(LoweringTable& table) {
  table["gather"] = gather;
  table["scatter_add"] = scatter_add;
  table["dynamic_slice"] = dynamic_slice;
  table["dynamic_update_slice"] = dynamic_update_slice;
}

}  // namespace transom::hpu
