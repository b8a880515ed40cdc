// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/product_plan.h"

#include <algorithm>

namespace transom::cpu {
namespace {

// Some axes of a tensor, in the order in which the product walks them.
struct Axes {
  Shape shape, strides;
};

Axes pick(const Type& type, const Shape& axes) {
  const Shape strides = dense_strides(type.shape);
  Axes picked;
  for (int64_t axis : axes) {
    if (axis < 0 || static_cast<size_t>(axis) >= type.rank())
      fail(TRANSOM_INVALID_ARGUMENT, "expected axes below {}, found {}", type.rank(), axis);
    picked.shape.push_back(type.shape[static_cast<size_t>(axis)]);
    picked.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  return picked;
}

Shape others(const Type& type, const Shape& batch, const Shape& contract) {
  Shape rest;
  for (int64_t axis = 0; axis < static_cast<int64_t>(type.rank()); ++axis)
    if (std::find(batch.begin(), batch.end(), axis) == batch.end() &&
        std::find(contract.begin(), contract.end(), axis) == contract.end())
      rest.push_back(axis);
  return rest;
}

int64_t count_of(const Axes& axes) { return product(axes.shape, 0, axes.shape.size()); }

// The one stride that walks the axes, if there is one.
std::optional<int64_t> single_stride(const Axes& axes) {
  const LoopNest nest = collapse(axes.shape, {axes.strides});
  if (nest.shape.size() != 1) return std::nullopt;
  return nest.strides[0][0];
}

void rearrange(ProductOperand& operand, const Axes& batch, const Axes& rows, const Axes& columns, size_t element) {
  Axes all = batch;
  for (const Axes* axes : {&rows, &columns}) {
    all.shape.insert(all.shape.end(), axes->shape.begin(), axes->shape.end());
    all.strides.insert(all.strides.end(), axes->strides.begin(), axes->strides.end());
  }
  operand.rearrange.emplace(all.shape, dense_strides(all.shape), 0, all.strides, 0, element);
  operand.column = 1;
  operand.row = count_of(columns);
  operand.batch_strides = dense_strides(batch.shape);
  for (int64_t& stride : operand.batch_strides) stride *= count_of(rows) * count_of(columns);
}

// An axis of one element has any stride; the library wants one that fits.
void settle_strides(ProductOperand& operand, int64_t rows, int64_t columns) {
  if (columns == 1 && operand.row != 1) operand.column = 1;
  if (rows == 1 && operand.column == 1) operand.row = columns;
  if (rows == 1 && operand.column != 1) operand.row = 1;
  if (columns == 1 && operand.row == 1 && operand.column != 1) operand.column = rows;
  if (rows == 1 && columns == 1) operand.row = operand.column = 1;
}

void place(ProductOperand& operand, const Type& type, const Axes& batch, const Axes& rows, const Axes& columns,
           bool force_rearrange) {
  operand.dtype = type.dtype;
  operand.count = type.count();
  const auto row = single_stride(rows), column = single_stride(columns);
  const int64_t m = count_of(rows), k = count_of(columns);
  const bool matrix = row && column && (*row == 1 || *column == 1 || m == 1 || k == 1);
  if (!matrix || force_rearrange) {
    rearrange(operand, batch, rows, columns, element_size(type.dtype));
  } else {
    operand.row = *row;
    operand.column = *column;
    operand.batch_strides = batch.strides;
  }
  settle_strides(operand, m, k);
}

}  // namespace

ProductPlan plan_dot_general(const Node& node) {
  const Type& x = node.input(0);
  const Type& y = node.input(1);
  if (x.dtype != y.dtype)
    fail(TRANSOM_INVALID_ARGUMENT, "expected inputs of one type, found {} and {}", to_string(x), to_string(y));
  const Shape x_batch = node.integers("x_batch"), y_batch = node.integers("y_batch");
  const Shape x_contract = node.integers("x_contract"), y_contract = node.integers("y_contract");
  const Axes xb = pick(x, x_batch), yb = pick(y, y_batch), xk = pick(x, x_contract), yk = pick(y, y_contract);
  const Axes xm = pick(x, others(x, x_batch, x_contract)), yn = pick(y, others(y, y_batch, y_contract));
  if (xb.shape != yb.shape || xk.shape != yk.shape)
    fail(TRANSOM_INVALID_ARGUMENT, "expected equal batch and contracted extents, found {} and {}", to_string(x),
         to_string(y));
  ProductPlan plan;
  plan.output = node.output().dtype;
  plan.batch_shape = xb.shape;
  plan.batch = count_of(xb);
  plan.m = count_of(xm);
  plan.n = count_of(yn);
  plan.k = count_of(xk);
  if (node.output().count() != plan.batch * plan.m * plan.n)
    fail(TRANSOM_INVALID_ARGUMENT, "{} and {} do not give {}", to_string(x), to_string(y), to_string(node.output()));
  // The contracted axes must be one axis for both together, or be brought into one order.
  const bool together = collapse(xk.shape, {xk.strides, yk.strides}).shape.size() == 1;
  const bool each = single_stride(xk) && single_stride(yk);
  place(plan.a, x, xb, xm, xk, !together && !each);
  place(plan.b, y, yb, yk, yn, !together && !each);
  plan.c_batch_strides = dense_strides(plan.batch_shape);
  for (int64_t& stride : plan.c_batch_strides) stride *= plan.m * plan.n;
  return plan;
}

ProductPlan plan_linear(const Node& node) {
  const Type& x = node.input(0);
  const Type& w = node.input(1);
  if (x.rank() == 0 || w.rank() != 2 || x.shape.back() != w.shape[1] || x.dtype != w.dtype)
    fail(TRANSOM_INVALID_ARGUMENT, "expected x [..., K] and w [N, K] of one type, found {} and {}", to_string(x),
         to_string(w));
  ProductPlan plan;
  plan.output = node.output().dtype;
  plan.m = product(x.shape, 0, x.rank() - 1);
  plan.n = w.shape[0];
  plan.k = w.shape[1];
  plan.a = {x.dtype, x.count(), plan.k, 1, {}, std::nullopt};
  plan.b = {w.dtype, w.count(), 1, plan.k, {}, std::nullopt};
  settle_strides(plan.a, plan.m, plan.k);
  settle_strides(plan.b, plan.k, plan.n);
  plan.bias = node.input_count() > 2;
  if (plan.bias && (node.input(2).count() != plan.n || node.input(2).dtype != x.dtype))
    fail(TRANSOM_INVALID_ARGUMENT, "expected a bias [{}], found {}", plan.n, to_string(node.input(2)));
  if (node.output().count() != plan.m * plan.n)
    fail(TRANSOM_INVALID_ARGUMENT, "{} and {} do not give {}", to_string(x), to_string(w), to_string(node.output()));
  return plan;
}

}  // namespace transom::cpu
