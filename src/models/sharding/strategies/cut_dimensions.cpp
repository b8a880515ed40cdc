// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/cut_dimensions.h"

#include <algorithm>

#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"
#include "transom/ops.h"

namespace transom {
namespace {

const Operation& record(const char* name) { return find_operation(name); }

bool is_any_of(const Node& node, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return node.operation == &record(name); });
}

// Whether each process has one piece of the dimension.
bool is_plain_cut(const Cuts& cuts, int64_t extent) {
  return cuts.size() == 1 && cuts[0].joined.empty() && extent_of(cuts[0]) == extent;
}

// The indices within this process's rows, and which of them are there.
struct LocalIndices {
  Tensor indices, mine;
};
LocalIndices local_indices(const ProcessMesh& mesh, const Cut& cut, const Tensor& indices) {
  const Range units = local_units(mesh, cut);
  const int64_t begin = units.begin * cut.inner, end = units.end * cut.inner;
  const DType dtype = indices.dtype();
  const auto number = [&](int64_t value) { return full(indices.shape(), static_cast<double>(value), dtype); };
  const Tensor mine = logical_and(greater_equal(indices, number(begin)), less(indices, number(end)));
  return {select(mine, indices - number(begin), number(0)), mine};
}

}  // namespace

Sharded CutDimensions::shard(const NodePointer& node) {
  const bool extreme = is_any_of(*node, {"reduce_max", "reduce_min"});
  const bool rows = node->operation->category == Category::kRows && node->operation->decompose;
  const bool look_up = is_any_of(*node, {"gather", "scatter_add"});
  if (!extreme && !rows && !look_up) return Sharded::kNo;
  const ShardedValue x = forms_.used(node->inputs[0]);
  if (x.placement.sharded().empty()) return Sharded::kNo;
  if (rows) {
    if (x.placement.dimensions.empty() || x.placement.dimensions.back().empty()) return Sharded::kNo;
    return Sharded::kByDecomposition;
  }
  if (!x.placement.partial.empty()) return Sharded::kNo;
  if (extreme) {
    bool cut = false;
    for (const int64_t axis : node->attributes.get_ints("axes"))
      cut |= !x.placement.dimensions[static_cast<size_t>(axis)].empty();
    if (cut) reduce_parts(node, x);
    return cut ? Sharded::kYes : Sharded::kNo;
  }
  // Tables are cut in their rows alone.
  if (node->attributes.get_int("axis") != 0 || !is_plain_cut(x.placement.dimensions[0], x.shape[0]))
    return Sharded::kNo;
  for (size_t d = 1; d < x.placement.dimensions.size(); ++d)
    if (!x.placement.dimensions[d].empty()) return Sharded::kNo;
  for (size_t i = 1; i < node->inputs.size(); ++i) {
    const Placement& other = forms_.used(node->inputs[i]).placement;
    if (!other.partial.empty() || !(other.sharded() & x.placement.sharded()).empty()) return Sharded::kNo;
  }
  if (node->inputs.size() == 2) look_up_in_parts(node, x);
  else add_to_parts(node, x);
  return Sharded::kYes;
}

void CutDimensions::reduce_parts(const NodePointer& node, const ShardedValue& x) {
  const Axes& axes = node->attributes.get_ints("axes");
  MeshAxes over;
  Placement placement;
  for (size_t d = 0; d < x.placement.dimensions.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!reduced) placement.dimensions.push_back(x.placement.dimensions[d]);
    else
      for (const Cut& cut : x.placement.dimensions[d])
        for (const MeshAxis axis : cut.axes) over.add(axis);
  }
  const Tensor mine = make_tensor(*node->operation, {x.local}, node->attributes);
  const Tensor all = make_tensor(*node->operation, {forms_.resharder().stacked(mine, over)}, {{"axes", Axes{0}}});
  forms_.store(node, {{all, node->types[0].shape, placement}});
}

void CutDimensions::look_up_in_parts(const NodePointer& node, const ShardedValue& table) {
  const ShardedValue indices = forms_.used(node->inputs[1]);
  const LocalIndices local = local_indices(forms_.mesh(), table.placement.dimensions[0][0], indices.local);
  const Tensor rows = make_tensor(*node->operation, {table.local, local.indices}, node->attributes);
  Shape wide = local.mine.shape();
  wide.resize(static_cast<size_t>(rows.rank()), 1);
  const Tensor there = broadcast_to(reshape(local.mine, wide), rows.shape());
  Placement placement = indices.placement;
  placement.dimensions.resize(static_cast<size_t>(rows.rank()));
  placement.partial = table.placement.sharded();
  forms_.store(node, {{select(there, rows, zeros(rows.shape(), rows.dtype())), node->types[0].shape, placement}});
}

void CutDimensions::add_to_parts(const NodePointer& node, const ShardedValue& x) {
  // Rows of several processes go to the same rows of x: what is cut of the indices must be whole, or summed.
  const ShardedValue indices = forms_.used(node->inputs[1]);
  Placement of_updates = indices.placement;
  of_updates.dimensions.resize(node->inputs[2].shape().size());
  const ShardedValue updates = forms_.in_form(node->inputs[2], of_updates);
  const LocalIndices local = local_indices(forms_.mesh(), x.placement.dimensions[0][0], indices.local);
  Shape wide = local.mine.shape();
  wide.resize(static_cast<size_t>(updates.local.rank()), 1);
  const Tensor there = broadcast_to(reshape(local.mine, wide), updates.local.shape());
  const Tensor kept = select(there, updates.local, zeros(updates.local.shape(), updates.local.dtype()));
  ShardedValue into = x;
  into.placement.partial = indices.placement.sharded();
  into = forms_.resharder().reshard(x, into.placement);
  forms_.store(node, {{make_tensor(*node->operation, {into.local, local.indices, kept}, node->attributes),
                       node->types[0].shape, into.placement}});
}

}  // namespace transom
