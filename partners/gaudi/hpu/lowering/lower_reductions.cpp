// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, places of extremes, and running sums. Sums of 16-bit floats are kept in f32.
#include <algorithm>

#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

// The tensor with neighbouring axes of one kind joined, and which of them are reduced.
struct JoinedAxes {
  Shape shape;
  std::vector<size_t> reduced;
};

JoinedAxes join(const Shape& shape, const Shape& axes) {
  JoinedAxes result;
  bool before = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (shape[i] == 1) continue;
    if (!result.shape.empty() && reduced == before) {
      result.shape.back() *= shape[i];
    } else {
      if (reduced) result.reduced.push_back(result.shape.size());
      result.shape.push_back(shape[i]);
    }
    before = reduced;
  }
  if (result.shape.size() > kMaximumRank) unsupported("a reduction of more than five groups of axes");
  return result;
}

template <const char* const& guid>
Values reduction(const Node& node, Emitter& emit, const Values& in) {
  if (!is_floating(in[0].element) && in[0].element != Element::kI32) unsupported("no kernel reduces these integers");
  const JoinedAxes joined = join(node.input(0).shape, node.integers("axes"));
  const Shape result = Emitter::canonical(node.output().shape);
  if (joined.reduced.empty()) return {emit.reshape(in[0], result)};
  const bool wide = is_floating(in[0].element) && node.op() == "reduce_sum";
  const Value x = emit.reshape(wide ? emit.cast(in[0], Element::kF32) : in[0], joined.shape);
  return {emit.reshape(emit.cast(emit.reduce(guid, x, joined.reduced, x.element), in[0].element), result)};
}

template <const char* const& guid>
Values place_of_extreme(const Node& node, Emitter& emit, const Values& in) {
  if (!is_floating(in[0].element) && in[0].element != Element::kI32) unsupported("no kernel compares these integers");
  const Shape& shape = node.input(0).shape;
  const auto axis = static_cast<size_t>(node.integer("axis"));
  const Shape view = {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
  const Value places = emit.reduce(guid, emit.reshape(in[0], view), {1}, Element::kI32);
  return {emit.reshape(emit.cast(places, emit.element_of(TRANSOM_INT64)), Emitter::canonical(node.output().shape))};
}

Values cumulative_sum(const Node& node, Emitter& emit, const Values& in) {
  if (!is_floating(in[0].element) && in[0].element != Element::kI32) unsupported("no kernel adds up these integers");
  const Shape& shape = node.input(0).shape;
  const auto axis = static_cast<size_t>(node.integer("axis"));
  const Shape view = {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
  const Element sums = is_floating(in[0].element) ? Element::kF32 : in[0].element;
  const Value x = emit.reshape(emit.cast(in[0], sums), view);
  const Value y = emit.node(Emitter::typed("cumsum_fwd", sums), {x}, sums, view, synCumSumParams{1, 0, 0});
  return {emit.reshape(emit.cast(y, in[0].element), Emitter::canonical(shape))};
}

constexpr const char* const sum_guid = "reduce_sum_multi_dim_fwd";
constexpr const char* const max_guid = "reduce_max_multi_dim_fwd";
constexpr const char* const min_guid = "reduce_min_multi_dim_fwd";
constexpr const char* const arg_max_guid = "argmax_multi_dim_fwd";
constexpr const char* const arg_min_guid = "argmin_multi_dim_fwd";

}  // namespace

void add_reduction_lowerings(LoweringTable& table) {
  table["reduce_sum"] = reduction<sum_guid>;
  table["reduce_max"] = reduction<max_guid>;
  table["reduce_min"] = reduction<min_guid>;
  table["arg_max"] = place_of_extreme<arg_max_guid>;
  table["arg_min"] = place_of_extreme<arg_min_guid>;
  table["cumulative_sum"] = cumulative_sum;
}

}  // namespace transom::hpu
