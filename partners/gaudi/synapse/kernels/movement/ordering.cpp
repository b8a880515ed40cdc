// SPDX-License-Identifier: Apache-2.0
// Kernels along one dim that depend on order: cumulative sums, the largest k, sorting.
#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace synapse_emulator {
namespace {

void check_cumulative(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  require_type(node, node.input(0), node.type, "the input");
  require_type(node, node.output(0), node.type, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  axis_of(node, params_of<CumulativeParams>(node).axis, node.input(0).sizes.rank);
}
template <typename Value, typename Op>
void accumulate_rows(const Node& node, Value start, const Op& op) {
  const auto params = params_of<CumulativeParams>(node);
  const Reduction loop(node.input(0).sizes, 1u << params.axis);
  std::vector<Value> row(static_cast<size_t>(loop.count()));
  for (int64_t i = 0; i < loop.outputs(); ++i) {
    loop.gather<Value>(node.input(0), i, row.data());
    if (params.reverse) std::reverse(row.begin(), row.end());
    Value total = start;
    for (Value& value : row) {
      const Value next = op(total, value);
      value = params.exclusive ? total : next;
      total = next;
    }
    if (params.reverse) std::reverse(row.begin(), row.end());
    loop.scatter<Value>(node.output(0), i, row.data());
  }
}
void run_cumulative_sum(const Node& node) {
  if (is_floating(node.type)) accumulate_rows<float>(node, 0, [](float a, float b) { return a + b; });
  else accumulate_rows<int64_t>(node, 0, [](int64_t a, int64_t b) { return a + b; });
}
void run_cumulative_product(const Node& node) {
  if (is_floating(node.type)) accumulate_rows<float>(node, 1, [](float a, float b) { return a * b; });
  else
    accumulate_rows<int64_t>(node, 1, [](int64_t a, int64_t b) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    });
}

// x -> {values, i32 places} of the k largest (or smallest) along an axis, in order; of equals the first place first.
struct Selection {
  int64_t k;
  int axis;
  bool smallest;
};
Selection selection_of(const Node& node) {
  const auto params = params_of<TopkParams>(node, {12, 16, 20});
  return {params.k, axis_of(node, params.axis, node.input(0).sizes.rank), params.bottom};
}
void check_topk(const Node& node) {
  require_counts(node, 1, 4, 2, 2);
  const Selection selection = selection_of(node);
  const Operand& x = node.input(0);
  Sizes expected = x.sizes;
  expected.size[static_cast<size_t>(selection.axis)] = selection.k;
  require(selection.k > 0 && selection.k <= x.sizes[selection.axis], node, "k is ", selection.k, " of ",
          x.sizes[selection.axis]);
  require_type(node, node.output(0), x.type, "the values");
  require_type(node, node.output(1), syn_type_int32, "the places");
  require_sizes(node, node.output(0), expected, "the values");
  require_sizes(node, node.output(1), expected, "the places");
}
template <typename Value>
void select(const Node& node) {
  const Selection selection = selection_of(node);
  const Reduction from(node.input(0).sizes, 1u << selection.axis), to(node.output(0).sizes, 1u << selection.axis);
  std::vector<Value> row(static_cast<size_t>(from.count())), values(static_cast<size_t>(selection.k));
  std::vector<int64_t> order(row.size());
  for (int64_t i = 0; i < from.outputs(); ++i) {
    from.gather<Value>(node.input(0), i, row.data());
    std::iota(order.begin(), order.end(), 0);
    // NaN counts as the largest number.
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const Value x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
      const bool x_nan = x != x, y_nan = y != y;
      if (x_nan || y_nan) return selection.smallest ? !x_nan && y_nan : x_nan && !y_nan;
      return selection.smallest ? x < y : x > y;
    });
    for (size_t j = 0; j < values.size(); ++j) values[j] = row[static_cast<size_t>(order[j])];
    to.scatter<Value>(node.output(0), i, values.data());
    to.scatter<int64_t>(node.output(1), i, order.data());
  }
}
void run_topk(const Node& node) {
  if (is_floating(node.input(0).type)) select<float>(node);
  else select<int64_t>(node);
}

double topk_flops(const Node& node) { return 20.0 * static_cast<double>(node.input(0).elements()); }

}  // namespace

void add_ordering(KernelTable& table) {
  const Types types = {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_int32};
  table.add({"cumsum_fwd", Engine::kTpc, types, check_cumulative, run_cumulative_sum, nullptr, false});
  table.add({"cumprod_fwd", Engine::kTpc, types, check_cumulative, run_cumulative_product, nullptr, false});
  table.add({"topk", Engine::kTpc, kNoSuffix, check_topk, run_topk, topk_flops, false});
}

}  // namespace synapse_emulator
