// SPDX-License-Identifier: Apache-2.0
// Grouped products: rows are brought together by group, each group is one product with its weight, and the results go
// back to where their rows stood. What of a group's rows is missing to a round number is filled with zeros, so that the
// library makes few products.
#include "cpu/products/grouped_linear.h"

#include <algorithm>
#include <cstring>

#include "cpu/device/library.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/movement/copy.h"
#include "cpu/kernels/scratch.h"
#include "cpu/products/matrix_product.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr int64_t kColumnBlock = 64;     // columns of a task are multiples of it
constexpr int64_t kFewestColumns = 128;  // of a task

constexpr int64_t kFewRows = 8;  // of f32 by own loops, as linear has it: the reading of the weight binds

// At most `exact` rows as they are; of more than 64 at most one in eight is empty.
int64_t rounded_rows(int64_t rows, int64_t exact) {
  if (rows <= exact) return rows;
  int64_t step = 8;
  while (rows > 16 * step) step *= 2;
  return (rows + step - 1) / step * step;
}

// Rows of a group: where they begin among the rows that are brought together, how many they are, and with zeros.
struct Group {
  int64_t begin = 0, rows = 0, filled = 0;
};

struct SortedRows {
  std::vector<Group> groups;
  std::vector<int64_t> rows;    // by place: the row that lies there, -1 for zeros
  std::vector<int64_t> places;  // by row: its place, -1 where its group has no weight
};

SortedRows sort_rows(const int64_t* groups, int64_t count, int64_t first, size_t weights, int64_t exact) {
  SortedRows sorted;
  sorted.groups.resize(weights);
  sorted.places.assign(static_cast<size_t>(count), -1);
  const auto group_of = [&](int64_t row) -> Group* {
    const int64_t i = groups[row] - first;
    return i < 0 || i >= static_cast<int64_t>(weights) ? nullptr : &sorted.groups[static_cast<size_t>(i)];
  };
  for (int64_t row = 0; row < count; ++row)
    if (Group* group = group_of(row)) ++group->rows;
  int64_t total = 0;
  for (Group& group : sorted.groups) {
    group.begin = total;
    group.filled = rounded_rows(group.rows, exact);
    total += group.filled;
    group.rows = 0;
  }
  sorted.rows.assign(static_cast<size_t>(total), -1);
  for (int64_t row = 0; row < count; ++row)
    if (Group* group = group_of(row)) {
      const int64_t place = group->begin + group->rows++;
      sorted.places[static_cast<size_t>(row)] = place;
      sorted.rows[static_cast<size_t>(place)] = row;
    }
  return sorted;
}

// At most so many rows with zeros.
int64_t most_filled(int64_t rows, int64_t weights) { return rows + rows / 8 + 8 * weights; }

// `from` holds a row for each row of groups, or one for `each` of them.
void bring_together(std::byte* to, const std::byte* from, const SortedRows& sorted, int64_t each, size_t bytes) {
  const auto grain = std::max<int64_t>((1 << 16) / static_cast<int64_t>(bytes + 1), 1);
  parallel_ranges(static_cast<int64_t>(sorted.rows.size()), grain, [&](int64_t begin, int64_t end) {
    for (int64_t place = begin; place < end; ++place) {
      const int64_t row = sorted.rows[static_cast<size_t>(place)];
      std::byte* at = to + static_cast<size_t>(place) * bytes;
      if (row < 0) std::memset(at, 0, bytes);
      else std::memcpy(at, from + static_cast<size_t>(row / each) * bytes, bytes);
    }
  });
}

// A product of one group, in chunks of columns.
struct Task {
  const std::byte *a, *b;
  std::byte* c;
  MatrixShape shape;
  bool few = false;  // rows times a weight [O, K]
};

void run_tasks(const std::vector<Task>& tasks) {
  parallel_for(tasks.size(), [&](size_t i) {
    const auto& [a, b, c, shape, few] = tasks[i];
    if (!few) return MatrixProduct::find(shape)->run(a, b, nullptr, c);
    vector_kernels().rows_f32(reinterpret_cast<float*>(c), static_cast<size_t>(shape.c_row),
                              reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                              static_cast<size_t>(shape.m), static_cast<size_t>(shape.n), static_cast<size_t>(shape.k));
  });
}

// As many chunks that all threads have work.
int64_t columns_of_task(int64_t columns, size_t products) {
  const auto threads = static_cast<int64_t>(thread_count());
  if (threads == 1 || products == 0) return columns;
  const int64_t wanted =
      std::max<int64_t>((4 * threads + static_cast<int64_t>(products) - 1) / static_cast<int64_t>(products), 1);
  const int64_t step = std::max((columns + wanted - 1) / wanted, kFewestColumns);
  return (step + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
}

struct GroupedPlan {
  transom_dtype dtype;
  int64_t rows, each, depth, width, first;  // `each`: rows of groups that one row of x serves
  size_t weights;
  bool transposed;
  size_t size() const { return element_size(dtype); }
  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * size(); }
};

void run_grouped_linear(const GroupedPlan& plan, const Arguments& arguments) {
  const int64_t few = plan.dtype == TRANSOM_FLOAT32 && !plan.transposed ? kFewRows : 0;
  const SortedRows sorted =
      sort_rows(arguments.input<int64_t>(1), plan.rows, plan.first, plan.weights, std::max<int64_t>(few, 1));
  std::byte* a = arguments.scratch;
  std::byte* c = a + aligned(plan.bytes(most_filled(plan.rows, static_cast<int64_t>(plan.weights)) * plan.depth));
  bring_together(a, arguments.inputs[0], sorted, plan.each, plan.bytes(plan.depth));
  std::vector<Task> tasks;
  size_t busy = 0;
  for (const Group& group : sorted.groups) busy += group.rows > 0;
  const int64_t step = columns_of_task(plan.width, busy);
  for (size_t i = 0; i < plan.weights; ++i) {
    const Group& group = sorted.groups[i];
    if (group.rows == 0) continue;
    for (int64_t column = 0; column < plan.width; column += step) {
      const int64_t b_row = plan.transposed ? plan.width : 1, b_column = plan.transposed ? 1 : plan.depth;
      tasks.push_back({a + plan.bytes(group.begin * plan.depth),
                       arguments.inputs[2 + i] + plan.bytes(column * b_column),
                       c + plan.bytes(group.begin * plan.width + column),
                       {group.filled, std::min(step, plan.width - column), plan.depth, plan.depth, 1, b_row, b_column,
                        plan.width, plan.dtype, plan.dtype, false, false},
                       group.rows <= few});
    }
  }
  run_tasks(tasks);
  const size_t row_bytes = plan.bytes(plan.width);
  parallel_ranges(plan.rows, std::max<int64_t>((1 << 16) / static_cast<int64_t>(row_bytes + 1), 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      const int64_t place = sorted.places[static_cast<size_t>(row)];
                      std::byte* to = arguments.outputs[0] + static_cast<size_t>(row) * row_bytes;
                      if (place < 0) std::memset(to, 0, row_bytes);
                      else std::memcpy(to, c + static_cast<size_t>(place) * row_bytes, row_bytes);
                    }
                  });
}

Kernel make_grouped_linear(const Node& node) {
  const Type &x = node.input(0), &groups = node.input(1), &weight = node.input(2);
  const bool transposed = node.integer("transposed") != 0;
  const GroupedPlan plan{x.dtype,
                         groups.count(),
                         x.rank() == 2 ? groups.shape[1] : 1,
                         weight.shape[transposed ? 0 : 1],
                         weight.shape[transposed ? 1 : 0],
                         node.integer("first"),
                         node.input_count() - 2,
                         transposed};
  if (node.output().count() == 0) return {"nothing", [](const Arguments&) {}};
  if (plan.depth == 0)
    return {"zeros", [bytes = plan.bytes(node.output().count())](const Arguments& arguments) {
              std::memset(arguments.outputs[0], 0, bytes);
            }};
  const int64_t most = most_filled(plan.rows, static_cast<int64_t>(plan.weights));
  return {"products by group", [plan](const Arguments& arguments) { run_grouped_linear(plan, arguments); },
          aligned(plan.bytes(most * plan.depth)) + aligned(plan.bytes(most * plan.width))};
}

// depth: of x, width: of dy.
void run_weight_gradient(const GroupedPlan& plan, const Arguments& arguments) {
  const SortedRows sorted = sort_rows(arguments.input<int64_t>(2), plan.rows, plan.first, plan.weights, 0);
  std::byte* dy = arguments.scratch;
  std::byte* x = dy + aligned(plan.bytes(most_filled(plan.rows, static_cast<int64_t>(plan.weights)) * plan.width));
  bring_together(dy, arguments.inputs[0], sorted, 1, plan.bytes(plan.width));
  bring_together(x, arguments.inputs[1], sorted, plan.each, plan.bytes(plan.depth));
  std::vector<Task> tasks;
  size_t busy = 0;
  for (const Group& group : sorted.groups) busy += group.rows > 0;
  const int64_t step = columns_of_task(plan.depth, busy);
  for (size_t i = 0; i < plan.weights; ++i) {
    const Group& group = sorted.groups[i];
    if (group.rows == 0) {
      std::memset(arguments.outputs[i], 0, plan.bytes(plan.width * plan.depth));
      continue;
    }
    for (int64_t column = 0; column < plan.depth; column += step)
      tasks.push_back({dy + plan.bytes(group.begin * plan.width),
                       x + plan.bytes(group.begin * plan.depth + column),
                       arguments.outputs[i] + plan.bytes(column),
                       {plan.width, std::min(step, plan.depth - column), group.filled, 1, plan.width, plan.depth, 1,
                        plan.depth, plan.dtype, plan.dtype, false, false}});
  }
  run_tasks(tasks);
}

Kernel make_grouped_weight_gradient(const Node& node) {
  const Type &dy = node.input(0), &x = node.input(1), &groups = node.input(2);
  const GroupedPlan plan{
      x.dtype,         groups.count(),        x.rank() == 2 ? groups.shape[1] : 1,        x.shape.back(),
      dy.shape.back(), node.integer("first"), static_cast<size_t>(node.integer("count")), false};
  if (node.output().count() == 0) return {"nothing", [](const Arguments&) {}};
  const int64_t most = most_filled(plan.rows, static_cast<int64_t>(plan.weights));
  return {"gradients of weights by group", [plan](const Arguments& arguments) { run_weight_gradient(plan, arguments); },
          aligned(plan.bytes(most * plan.depth)) + aligned(plan.bytes(most * plan.width))};
}

// What the library computes as it is; it pairs values of bf16, so that the depth must be even.
bool claims_products(std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  const transom_value& x = inputs[0];
  const auto dtype = static_cast<transom_dtype>(x.dtype);
  if (dtype == TRANSOM_FLOAT32) return true;
  return dtype == TRANSOM_BFLOAT16 && library_computes(dtype) && x.rank > 0 && x.shape[x.rank - 1] % 2 == 0;
}

}  // namespace

void add_grouped_kernels(KernelTable& table) {
  table["grouped_linear"] = {make_grouped_linear, claims_products};
  table["grouped_linear_weight_gradient"] = {make_grouped_weight_gradient, claims_products};
}

}  // namespace transom::cpu
