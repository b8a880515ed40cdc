// SPDX-License-Identifier: Apache-2.0
// Products: matrices, convolutions and windows.
#include <algorithm>

#include "base/error.h"
#include "models/onnx/export/lowering.h"

namespace transom::onnx {
namespace {

using Operands = std::vector<Operand>;
using Axes = std::vector<int64_t>;

// One side of a product as [batch..., rows..., contracted] or [batch..., contracted, rows]; `merged`: several axes of
// rows are one.
ValueId side(const Lowering& l, size_t input, const Axes& batch, const Axes& contract, bool contract_last,
             bool merged) {
  const Extents& shape = l.shape(input);
  Axes order = batch, free;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto i = static_cast<int64_t>(axis);
    if (std::find(batch.begin(), batch.end(), i) == batch.end() &&
        std::find(contract.begin(), contract.end(), i) == contract.end())
      free.push_back(i);
  }
  const Axes& first = contract_last ? free : contract;
  const Axes& second = contract_last ? contract : free;
  order.insert(order.end(), first.begin(), first.end());
  order.insert(order.end(), second.begin(), second.end());
  const auto extents_of = [&](const Axes& axes) {
    Extents extents;
    for (const int64_t axis : axes) extents.push_back(shape[static_cast<size_t>(axis)]);
    return extents;
  };
  Extents target = extents_of(batch), rows = extents_of(free);
  if (merged) rows = {product_of(rows)};
  const Extent inner = product_of(extents_of(contract));
  if (!contract_last) target.push_back(inner);
  target.insert(target.end(), rows.begin(), rows.end());
  if (contract_last) target.push_back(inner);
  return l.builder.reshape(l.builder.transpose(l.value(input), order), target);
}

Operands dot_general(const Lowering& l) {
  const Axes x_batch = l.ints("x_batch"), y_batch = l.ints("y_batch"), x_contract = l.ints("x_contract"),
             y_contract = l.ints("y_contract");
  const ValueType type = l.type();
  GraphBuilder& b = l.builder;
  // Without batch axes the rows of x may stay several.
  const ValueId x = b.cast(side(l, 0, x_batch, x_contract, true, !x_batch.empty()), type.dtype);
  const ValueId y = b.cast(side(l, 1, y_batch, y_contract, false, true), type.dtype);
  Extents shape = b.shape(x);
  shape.back() = b.shape(y).back();
  return {whole(b.reshape(b.node("MatMul", {x, y}, {type.dtype, shape}), type.shape), type)};
}

// x w^T + b, with w [out, in] as checkpoints have it.
Operands linear(const Lowering& l) {
  GraphBuilder& b = l.builder;
  const ValueType type = l.type();
  ValueId y = b.node("MatMul", {l.value(0), b.transpose(l.value(1), {1, 0})}, type);
  if (l.node().inputs.size() > 2) y = b.node("Add", {y, l.operand(2).value}, type);
  return {whole(y, type)};
}

Axes pads_of(const Lowering& l) {
  Axes pads = l.ints("low");
  const Axes high = l.ints("high");
  pads.insert(pads.end(), high.begin(), high.end());
  return pads;
}

Operands convolution(const Lowering& l) {
  return {whole(l.builder.node("Conv", {l.value(0), l.value(1)}, l.type(),
                               {{"dilations", l.ints("dilations")},
                                {"group", l.integer("groups")},
                                {"pads", pads_of(l)},
                                {"strides", l.ints("strides")}}),
                l.type())};
}

Operands max_pool(const Lowering& l) {
  return {
      whole(l.builder.node("MaxPool", {l.value(0)}, l.type(),
                           {{"kernel_shape", l.ints("window")}, {"pads", pads_of(l)}, {"strides", l.ints("strides")}}),
            l.type())};
}

Operands sum_pool(const Lowering& l) {
  GraphBuilder& b = l.builder;
  const ValueType type = l.type();
  const Extents window = l.extents("window"), shape = l.shape(0);
  const bool all =
      std::equal(window.begin(), window.end(), shape.begin() + 2, shape.end()) &&
      std::all_of(type.shape.begin() + 2, type.shape.end(), [](const Extent& e) { return e == constant_extent(1); });
  if (all) {
    Axes axes;
    for (size_t axis = 2; axis < shape.size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
    return {whole(b.node("ReduceSum", {l.value(0), b.ints(axes)}, type, {{"keepdims", int64_t{1}}}), type)};
  }
  const Axes kernel = l.ints("window");
  double size = 1;
  for (const int64_t extent : kernel) size *= static_cast<double>(extent);
  const ValueId mean = b.node("AveragePool", {l.value(0)}, type,
                              {{"count_include_pad", int64_t{1}},
                               {"kernel_shape", kernel},
                               {"pads", pads_of(l)},
                               {"strides", l.ints("strides")}});
  return {whole(b.node("Mul", {mean, b.scalar(size, type.dtype)}, type), type)};
}

constexpr LoweringEntry kProductEntries[] = {{"dot_general", dot_general},
                                             {"linear", linear},
                                             {"convolution", convolution},
                                             {"max_pool", max_pool},
                                             {"sum_pool", sum_pool}};

}  // namespace

std::span<const LoweringEntry> product_lowerings() { return kProductEntries; }

}  // namespace transom::onnx
