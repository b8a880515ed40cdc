// SPDX-License-Identifier: Apache-2.0
// What moves elements, and reductions.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "models/onnx/export/lowering.h"

namespace transom::onnx {
namespace {

using Operands = std::vector<Operand>;

bool is_half_wide(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

Operands reshape(const Lowering& l) {
  const Operand& x = l.operand(0);
  const ValueType type = l.type();
  // One number stays one: it broadcasts to whatever rank.
  if (product_of(l.builder.shape(x.value)) == constant_extent(1) &&
      l.builder.shape(x.value).size() <= type.shape.size())
    return {{x.value, type.shape}};
  return {whole(l.builder.reshape(l.value(0), type.shape), type)};
}

Operands permute(const Lowering& l) {
  const Operand& x = l.operand(0);
  const ValueId narrow = l.builder.shape(x.value).size() == x.shape.size() ? x.value : l.value(0);
  return {{l.builder.transpose(narrow, l.ints("permutation")), l.type().shape}};
}

Operands broadcast(const Lowering& l) { return {{l.operand(0).value, l.type().shape}}; }

Operands slice(const Lowering& l) {
  const Extents starts = l.extents("starts"), limits = l.extents("limits"), shape = l.shape(0);
  const std::vector<int64_t> strides = l.ints("strides");
  Extents begin, end;
  std::vector<int64_t> axes, steps;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (starts[i] == constant_extent(0) && limits[i] == shape[i] && strides[i] == 1) continue;
    begin.push_back(starts[i]);
    end.push_back(limits[i]);
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(strides[i]);
  }
  if (axes.empty()) return {l.operand(0)};
  GraphBuilder& b = l.builder;
  std::vector<ValueId> inputs{l.value(0), b.extents(begin), b.extents(end), b.ints(axes)};
  if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) inputs.push_back(b.ints(steps));
  return {whole(b.node("Slice", inputs, l.type()), l.type())};
}

Operands pad(const Lowering& l) {
  Extents pads = l.extents("low");
  const Extents high = l.extents("high");
  pads.insert(pads.end(), high.begin(), high.end());
  if (std::all_of(pads.begin(), pads.end(), [](const Extent& e) { return e == constant_extent(0); }))
    return {l.operand(0)};
  const ValueId value = l.builder.scalar(l.number("value"), l.dtype());
  return {whole(l.builder.node("Pad", {l.value(0), l.builder.extents(pads), value}, l.type()), l.type())};
}

Operands concatenate(const Lowering& l) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < l.node().inputs.size(); ++i) parts.push_back(l.value(i));
  return {whole(l.builder.node("Concat", parts, l.type(), {{"axis", l.integer("axis")}}), l.type())};
}

Operands reverse(const Lowering& l) {
  const std::vector<int64_t> axes = l.ints("axes");
  const std::vector<int64_t> last(axes.size(), -1), before(axes.size(), std::numeric_limits<int64_t>::min());
  GraphBuilder& b = l.builder;
  return {whole(b.node("Slice", {l.value(0), b.ints(last), b.ints(before), b.ints(axes), b.ints(last)}, l.type()),
                l.type())};
}

Operands gather(const Lowering& l) {
  return {whole(l.builder.node("Gather", {l.value(0), l.value(1)}, l.type(), {{"axis", l.integer("axis")}}), l.type())};
}

// x with updates added at the rows `indices` of its first axis.
Operands scatter_add(const Lowering& l) {
  if (l.integer("axis") != 0)
    fail("export: {}scatter_add along axis {} is not offered", scope_prefix_of(l.node()), l.integer("axis"));
  Extents places = l.shape(1);
  places.push_back(constant_extent(1));
  const ValueId indices = l.builder.reshape(l.builder.cast(l.value(1), DType::kInt64), places);
  return {whole(
      l.builder.node("ScatterND", {l.value(0), indices, l.value(2)}, l.type(), {{"reduction", std::string("add")}}),
      l.type())};
}

template <bool sum, bool maximum>
Operands reduce(const Lowering& l) {
  const std::vector<int64_t> axes = l.ints("axes");
  if (axes.empty()) return {l.operand(0)};  // ONNX would take none for all
  const ValueType type = l.type();
  GraphBuilder& b = l.builder;
  const DType wide = sum && is_half_wide(type.dtype) ? DType::kFloat32 : type.dtype;
  const char* name = sum ? "ReduceSum" : maximum ? "ReduceMax" : "ReduceMin";
  const ValueId value =
      b.node(name, {b.cast(l.value(0), wide), b.ints(axes)}, {wide, type.shape}, {{"keepdims", int64_t{0}}});
  return {whole(b.cast(value, type.dtype), type)};
}

template <bool maximum>
Operands arg_extreme(const Lowering& l) {
  return {whole(l.builder.node(maximum ? "ArgMax" : "ArgMin", {l.value(0)}, l.type(),
                               {{"axis", l.integer("axis")}, {"keepdims", int64_t{0}}}),
                l.type())};
}

Operands cumulative_sum(const Lowering& l) {
  const ValueId axis = l.builder.scalar(static_cast<double>(l.integer("axis")), DType::kInt64);
  return {whole(l.builder.node("CumSum", {l.value(0), axis}, l.type()), l.type())};
}

Operands ordered(const Lowering& l, int64_t axis, bool falling, const Extent& count) {
  const auto values = l.builder.nodes("TopK", {l.value(0), l.builder.extent(count)}, {l.type(0), l.type(1)},
                                      {{"axis", axis}, {"largest", int64_t{falling}}, {"sorted", int64_t{1}}});
  return {whole(values[0], l.type(0)), whole(values[1], l.type(1))};
}
Operands sort(const Lowering& l) {
  const int64_t axis = l.integer("axis");
  return ordered(l, axis, l.integer("descending") != 0, l.shape(0)[static_cast<size_t>(axis)]);
}
Operands top_k(const Lowering& l) {
  return ordered(l, static_cast<int64_t>(l.shape(0).size()) - 1, true, l.extent("k"));
}

constexpr LoweringEntry kMovementEntries[] = {{"reshape", reshape},
                                              {"permute", permute},
                                              {"broadcast", broadcast},
                                              {"slice", slice},
                                              {"pad", pad},
                                              {"concatenate", concatenate},
                                              {"reverse", reverse},
                                              {"gather", gather},
                                              {"scatter_add", scatter_add},
                                              {"reduce_sum", reduce<true, false>},
                                              {"reduce_max", reduce<false, true>},
                                              {"reduce_min", reduce<false, false>},
                                              {"arg_max", arg_extreme<true>},
                                              {"arg_min", arg_extreme<false>},
                                              {"cumulative_sum", cumulative_sum},
                                              {"sort", sort},
                                              {"top_k", top_k}};

}  // namespace

std::span<const LoweringEntry> movement_lowerings() { return kMovementEntries; }

}  // namespace transom::onnx
