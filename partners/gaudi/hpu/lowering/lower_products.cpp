// SPDX-License-Identifier: Apache-2.0
// Matrix products, on the matrix engines: any dot_general is brought to [B, M, K] by [B, K, N], with as few transposes
// as its axes allow.
#include <algorithm>
#include <numeric>

#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

// One operand: its axes in the three roles.
struct Operand {
  std::vector<size_t> batch, free, contract;
};

Operand roles(const Type& type, const Shape& batch, const Shape& contract) {
  Operand result;
  const auto has = [](const Shape& axes, size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
  };
  for (const int64_t axis : batch) result.batch.push_back(static_cast<size_t>(axis));
  for (const int64_t axis : contract) result.contract.push_back(static_cast<size_t>(axis));
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (!has(batch, axis) && !has(contract, axis)) result.free.push_back(axis);
  return result;
}

int64_t extent(const Type& type, const std::vector<size_t>& axes) {
  int64_t count = 1;
  for (const size_t axis : axes) count *= type.shape[axis];
  return count;
}

std::vector<size_t> joined(std::vector<size_t> x, const std::vector<size_t>& y, const std::vector<size_t>& z) {
  x.insert(x.end(), y.begin(), y.end());
  x.insert(x.end(), z.begin(), z.end());
  return x;
}

// Whether the axes stand in this order already; those of extent 1 stand anywhere.
bool in_order(const Type& type, const std::vector<size_t>& axes) {
  size_t last = 0;
  for (const size_t axis : axes) {
    if (type.shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The operand as [batch, rows, columns], or with the last two swapped (`swapped` says so) if it lies so.
Value arranged(Emitter& emit, const Value& x, const Type& type, const Operand& operand, const std::vector<size_t>& rows,
               const std::vector<size_t>& columns, bool with_batch, bool& swapped) {
  const std::vector<size_t> wanted = joined(operand.batch, rows, columns);
  swapped = !in_order(type, wanted) && in_order(type, joined(operand.batch, columns, rows));
  const int64_t batch = extent(type, operand.batch);
  Shape shape = {swapped ? extent(type, columns) : extent(type, rows),
                 swapped ? extent(type, rows) : extent(type, columns)};
  if (with_batch) shape.insert(shape.begin(), batch);
  if (swapped || in_order(type, wanted)) return emit.reshape(x, shape);
  if (type.shape.size() > kMaximumRank) unsupported("a matrix product of more than five axes in no usual order");
  return emit.reshape(emit.transpose(x, wanted), shape);
}

Values dot_general(const Node& node, Emitter& emit, const Values& in) {
  const Type &x_type = node.input(0), &y_type = node.input(1);
  const Operand x = roles(x_type, node.integers("x_batch"), node.integers("x_contract"));
  const Operand y = roles(y_type, node.integers("y_batch"), node.integers("y_contract"));
  const bool with_batch = extent(x_type, x.batch) != 1;
  bool transpose_x = false, transpose_y = false;
  const Value a = arranged(emit, in[0], x_type, x, x.free, x.contract, with_batch, transpose_x);
  const Value b = arranged(emit, in[1], y_type, y, y.contract, y.free, with_batch, transpose_y);
  const Value product = emit.product(a, b, transpose_x, transpose_y, emit.element_of(node.output().dtype));
  return {emit.reshape(product, Emitter::canonical(node.output().shape))};
}

Values linear(const Node& node, Emitter& emit, const Values& in) {
  const int64_t inner = node.input(0).shape.back();
  const Value x = emit.reshape(in[0], {node.input(0).count() / inner, inner});
  const Value product =
      emit.product(x, in[1], false, true, emit.element_of(node.output().dtype), in.size() > 2 ? &in[2] : nullptr);
  return {emit.reshape(product, Emitter::canonical(node.output().shape))};
}

}  // namespace

void add_product_lowerings(LoweringTable& table) {
  table["dot_general"] = dot_general;
  table["linear"] = {linear, true};
}

}  // namespace transom::hpu
