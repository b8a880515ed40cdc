// SPDX-License-Identifier: Apache-2.0
// Operations that move elements. Axes that stay together are joined first, so that most tensors of more than five axes
// fit the nodes' five.
#include <algorithm>
#include <numeric>

#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

Values reshape(const Node& node, Emitter& emit, const Values& in) {
  return {emit.reshape(in[0], Emitter::canonical(node.output().shape))};
}

Values permute(const Node& node, Emitter& emit, const Values& in) {
  const Shape& shape = node.input(0).shape;
  const Shape permutation = node.integers("permutation");
  // Groups of input axes that stand side by side in the output in the same order; axes of extent 1 go anywhere.
  std::vector<std::pair<size_t, size_t>> groups;  // first, last input axis; in the order of the output
  for (const int64_t axis : permutation) {
    const auto a = static_cast<size_t>(axis);
    if (shape[a] == 1) continue;
    bool joined = false;
    if (!groups.empty() && groups.back().second < a) {
      joined = product(shape, groups.back().second + 1, a) == 1;
      if (joined) groups.back().second = a;
    }
    if (!joined) groups.push_back({a, a});
  }
  const Shape result = Emitter::canonical(node.output().shape);
  if (groups.size() <= 1) return {emit.reshape(in[0], result)};
  if (groups.size() > kMaximumRank) unsupported("a permutation of more than five groups of axes");
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return groups[i].first < groups[j].first; });
  Shape joined;
  std::vector<size_t> place(groups.size());  // of a group in the input
  for (size_t i = 0; i < order.size(); ++i) {
    joined.push_back(product(shape, groups[order[i]].first, groups[order[i]].second + 1));
    place[order[i]] = i;
  }
  return {emit.reshape(emit.transpose(emit.reshape(in[0], joined), place), result)};
}

Values broadcast(const Node& node, Emitter& emit, const Values& in) {
  const Shape &from = node.input(0).shape, &to = node.output().shape;
  Shape small, large;
  bool repeats = false;  // what the last joined axis does
  for (size_t i = 0; i < from.size(); ++i) {
    if (to[i] == 1) continue;
    const bool repeated = from[i] != to[i];
    if (!large.empty() && repeated == repeats) {
      small.back() *= from[i];
      large.back() *= to[i];
    } else {
      small.push_back(from[i]);
      large.push_back(to[i]);
    }
    repeats = repeated;
  }
  const Shape result = Emitter::canonical(to);
  if (small == large) return {emit.reshape(in[0], result)};
  if (large.size() > kMaximumRank) unsupported("a broadcast of more than five groups of axes");
  return {emit.reshape(emit.broadcast(emit.reshape(in[0], small), large), result)};
}

Values slice(const Node& node, Emitter& emit, const Values& in) {
  const Shape& shape = node.input(0).shape;
  const Shape starts = node.integers("starts"), limits = node.integers("limits"), strides = node.integers("strides");
  Shape joined, from, to, steps;
  bool whole_before = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool whole = starts[i] == 0 && limits[i] == shape[i] && strides[i] == 1;
    if (whole && whole_before) {
      joined.back() *= shape[i];
      to.back() *= shape[i];
    } else {
      joined.push_back(shape[i]);
      from.push_back(starts[i]);
      to.push_back(limits[i]);
      steps.push_back(strides[i]);
    }
    whole_before = whole;
  }
  const Shape result = Emitter::canonical(node.output().shape);
  if (joined.empty()) return {emit.reshape(in[0], result)};
  if (joined.size() > kMaximumRank) unsupported("a slice of more than five groups of axes");
  return {emit.reshape(emit.slice(emit.reshape(in[0], joined), from, to, steps), result)};
}

// A tensor seen as [before, length, after] around an axis.
Shape around(const Shape& shape, size_t axis) {
  return {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
}

Values pad(const Node& node, Emitter& emit, const Values& in) {
  const Shape low = node.integers("low"), high = node.integers("high");
  Shape shape = node.input(0).shape;
  Value x = in[0];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (low[axis] < 0 || high[axis] < 0) unsupported("a pad by less than nothing");
    if (low[axis] == 0 && high[axis] == 0) continue;
    const Shape view = around(shape, axis);
    std::vector<Value> parts;
    const auto add = [&](int64_t count) {
      if (count) parts.push_back(emit.full(x.element, node.number("value"), {view[0], count, view[2]}));
    };
    add(low[axis]);
    parts.push_back(emit.reshape(x, view));
    add(high[axis]);
    x = emit.concatenate(parts, 1);
    shape[axis] += low[axis] + high[axis];
  }
  return {emit.reshape(x, Emitter::canonical(shape))};
}

Values concatenate(const Node& node, Emitter& emit, const Values& in) {
  const auto axis = static_cast<size_t>(node.integer("axis"));
  std::vector<Value> parts;
  for (size_t i = 0; i < in.size(); ++i) parts.push_back(emit.reshape(in[i], around(node.input(i).shape, axis)));
  return {emit.reshape(emit.concatenate(parts, 1), Emitter::canonical(node.output().shape))};
}

Values reverse(const Node& node, Emitter& emit, const Values& in) {
  Value x = in[0];
  const Shape& shape = node.input(0).shape;
  for (const int64_t axis : node.integers("axes")) {
    const Shape view = around(shape, static_cast<size_t>(axis));
    if (view[1] == 1) continue;
    const Value last = emit.number(Element::kI32, static_cast<double>(view[1] - 1), 1);
    x = emit.gather(emit.reshape(x, view), emit.binary("sub_fwd", last, emit.range(view[1])), 1);
  }
  return {emit.reshape(x, Emitter::canonical(shape))};
}

Values iota(const Node& node, Emitter& emit, const Values&) {
  const Type& type = node.output();
  const Shape view = around(type.shape, static_cast<size_t>(node.integer("axis")));
  const Value counted = emit.cast(emit.reshape(emit.range(view[1]), {1, view[1], 1}), emit.element_of(type.dtype));
  return {emit.reshape(emit.broadcast(counted, view), Emitter::canonical(type.shape))};
}

Values constant(const Node& node, Emitter& emit, const Values&) {
  const Element element = emit.element_of(node.output().dtype);
  if (element == Element::kU8) unsupported("a constant of 8 bits without a sign");
  if (node.has("int_value")) {
    const int64_t value = node.integer("int_value");
    if (value < INT32_MIN || value > INT32_MAX) unsupported("a constant beyond 32 bits");
    if (is_floating(element) && (value > 1 << 24 || value < -(1 << 24))) unsupported("an integer that f32 rounds");
    return {emit.number(element, static_cast<double>(value), 1)};
  }
  const double value = node.number("value");
  if (!is_floating(element) && !(value >= INT32_MIN && value <= INT32_MAX)) unsupported("a constant beyond 32 bits");
  return {emit.number(element, node.output().dtype == TRANSOM_BOOL ? value != 0 : value, 1)};
}

}  // namespace

void add_movement_lowerings(LoweringTable& table) {
  table["reshape"] = reshape;
  table["permute"] = permute;
  table["broadcast"] = broadcast;
  table["slice"] = slice;
  table["pad"] = pad;
  table["concatenate"] = concatenate;
  table["reverse"] = reverse;
  table["iota"] = iota;
  table["constant"] = constant;
}

}  // namespace transom::hpu
