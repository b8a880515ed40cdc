// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/expert_rows.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "graph/ops/products/grouped_linear.h"
#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr MeshAxis kAxis = MeshAxis::kExpert;

bool has_axis(const Cuts& cuts, MeshAxis axis) {
  return std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) {
    return std::find(cut.axes.begin(), cut.axes.end(), axis) != cut.axes.end();
  });
}

// The most rows that a process along the axis has of a dimension that is cut so.
int64_t most_rows(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent) {
  int64_t rows = extent;
  for (const Cut& cut : cuts) rows /= cut.units;
  for (const Cut& cut : cuts) {
    const auto at = std::find(cut.axes.begin(), cut.axes.end(), kAxis);
    if (at == cut.axes.end()) {
      rows *= local_units(mesh, cut).size();
      continue;
    }
    std::vector<int64_t> places;
    for (const MeshAxis axis : cut.axes) places.push_back(mesh.coordinate(axis));
    int64_t most = 0;
    for (int64_t i = 0; i < mesh.size(kAxis); ++i) {
      places[static_cast<size_t>(at - cut.axes.begin())] = i;
      most = std::max(most, units_of(mesh, cut, places).size());
    }
    rows *= most;
  }
  return rows;
}

Tensor number(const Tensor& like, int64_t value) {
  return full(like.shape(), static_cast<double>(value), DType::kInt64);
}

bool is_by_elements(const Node& node) {
  if (node.types.size() != 1) return false;
  if (node.operation->elementwise) return true;
  constexpr std::string_view kActivations[] = {"gelu",          "gelu_tanh",          "silu",         "sigmoid",
                                               "gelu_gradient", "gelu_tanh_gradient", "silu_gradient"};
  return std::find(std::begin(kActivations), std::end(kActivations), node.operation->name) != std::end(kActivations);
}

// The cuts of a weight's dimension that are not those of its owner.
Cuts without_owner(const Cuts& cuts) { return !cuts.empty() && cuts[0].owner >= 0 ? Cuts{} : cuts; }

MeshAxes axes_in(const Cuts& cuts) {
  MeshAxes axes;
  for (const Cut& cut : cuts)
    for (const MeshAxis axis : cut.axes) axes.add(axis);
  return axes;
}

}  // namespace

const ExpertRows::Route& ExpertRows::route_of(const Tensor& groups, int64_t weights) {
  if (const auto found = routes_.find(groups); found != routes_.end()) return found->second;
  const int64_t n = forms_.mesh().size(kAxis), k = groups.dim(1);
  Route route;
  Placement placement = forms_.used(groups).placement;
  placement.dimensions[1].clear();
  placement.partial = {};
  const Tensor local = forms_.in_form(groups, placement).local;
  route.rows = placement.dimensions[0];
  route.travel = has_axis(route.rows, kAxis);
  route.experts = part_of({0, weights}, forms_.mesh().coordinate(kAxis), n);
  route.shape = local.shape();
  const int64_t rows = local.size();
  if (!route.travel) {
    route.groups = reshape(local, {rows, 1});
    return routes_[groups] = route;
  }
  // No row goes to one expert twice.
  route.bound = most_rows(forms_.mesh(), route.rows, groups.dim(0)) * std::min(k, part_of({0, weights}, 0, n).size());
  const Tensor flat = reshape(local, {rows});
  Tensor to = number(flat, 0);
  for (int64_t i = 1; i < n; ++i)
    to = to + cast(greater_equal(flat, number(flat, part_of({0, weights}, i, n).begin)), DType::kInt64);
  const Shape each{rows, n};
  const Tensor goes = cast(equal(broadcast_to(unsqueeze(to, -1), each), iota(each, 1)), DType::kInt64);
  const Tensor before = reduce_sum(cumulative_sum(goes, 0) * goes, {1}) - number(flat, 1);
  route.places = to * number(to, route.bound) + before;
  const Tensor none = zeros({n * route.bound}, DType::kInt64);
  route.sent = scatter(none, route.places, iota({rows}, 0));
  route.sent_of = scatter(none, route.places, reshape(iota(local.shape(), 0), {rows}));
  const Tensor sent_groups = scatter(number(none, -1), route.places, flat);
  route.groups = reshape(forms_.resharder().exchanged(sent_groups, kAxis), {n * route.bound, 1});
  return routes_[groups] = route;
}

ShardedValue ExpertRows::with_experts(const Tensor& x, const Tensor& groups, const Cuts& width) {
  const Placement wanted{{{}, width}, {}};
  if (const auto found = with_experts_.find(x); found != with_experts_.end() &&
                                                found->second.groups.node() == groups.node() &&
                                                found->second.groups.output() == groups.output())
    return found->second.value = forms_.resharder().reshard(found->second.value, wanted);
  const Route route = routes_.at(groups);
  const int64_t k = groups.dim(1);
  Placement home = replicated(x.shape().size());
  home.dimensions[0] = route.rows;
  home.dimensions.back() = width;
  const Tensor local = forms_.in_form(x, home).local;
  const int64_t columns = local.shape().back(), m = route.shape[0];
  Tensor rows;
  if (route.travel) {
    const Tensor given =
        x.rank() == 2 ? gather(local, route.sent_of, 0) : gather(reshape(local, {m * k, columns}), route.sent, 0);
    rows = forms_.resharder().exchanged(given, kAxis);
  } else {
    const Tensor each = x.rank() == 2 ? broadcast_to(unsqueeze(local, 1), {m, k, columns}) : local;
    rows = reshape(each, {m * k, columns});
  }
  ShardedValue value{rows, {rows.dim(0), x.shape().back()}, wanted};
  with_experts_[x] = {groups, value};
  return value;
}

void ExpertRows::leave_with_experts(const Tensor& output, const Tensor& groups, ShardedValue value) {
  forms_.store_later(output, [this, output] { return brought_home(output); });
  with_experts_[output] = {groups, std::move(value)};
}

ShardedValue ExpertRows::brought_home(const Tensor& tensor) {
  const auto found = with_experts_.find(tensor);
  if (found == with_experts_.end()) fail(ErrorKind::kInternal, "a value that is nowhere");
  const Route& route = routes_.at(found->second.groups);
  const ShardedValue& value = found->second.value;
  Placement placement{{route.rows, {}, value.placement.dimensions[1]}, value.placement.partial};
  const int64_t columns = value.local.dim(1);
  Tensor rows = value.local;
  if (route.travel) {
    rows = gather(forms_.resharder().exchanged(rows, kAxis), route.places, 0);
  } else {
    const Tensor mine = logical_and(greater_equal(route.groups, number(route.groups, route.experts.begin)),
                                    less(route.groups, number(route.groups, route.experts.end)));
    rows = select(broadcast_to(mine, rows.shape()), rows, zeros(rows.shape(), rows.dtype()));
    placement.partial.add(kAxis);
  }
  return {reshape(rows, {route.shape[0], route.shape[1], columns}), tensor.shape(), placement};
}

Sharded ExpertRows::shard(const NodePointer& node) {
  return shard_product(node) || shard_by_elements(node) ? Sharded::kYes : Sharded::kNo;
}

bool ExpertRows::shard_product(const NodePointer& node) {
  if (forms_.mesh().size(kAxis) == 1) return false;
  if (is_op(*node, op::grouped_linear_weight_gradient) && routes_.contains(node->inputs[2])) {
    shard_weight_gradient(node);
    return true;
  }
  if (!is_op(*node, op::grouped_linear)) return false;
  const auto weights = static_cast<int64_t>(node->inputs.size()) - 2;
  const Range mine = part_of({0, weights}, forms_.mesh().coordinate(kAxis), forms_.mesh().size(kAxis));
  if (mine.size() == 0 || node->attributes.get_int("first") != 0) return false;
  for (int64_t i = 0; i < weights; ++i) {
    const Placement placement = forms_.used(node->inputs[static_cast<size_t>(i) + 2]).placement;
    const size_t d = owned_dimension(placement);
    if (d == 2 || !placement.partial.empty()) return false;
    const int64_t owner = placement.dimensions[d][0].owner;
    const Range of_owner = part_of({0, weights}, owner, forms_.mesh().size(kAxis));
    if (i < of_owner.begin || i >= of_owner.end) return false;
  }
  const bool transposed = node->attributes.get_int("transposed") != 0;
  std::vector<Tensor> locals;
  Placement of_weight;
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    const ShardedValue weight = forms_.used(node->inputs[static_cast<size_t>(i) + 2]);
    of_weight = weight.placement;
    locals.push_back(weight.local);
  }
  const Cuts depth = without_owner(of_weight.dimensions[transposed ? 0 : 1]),
             width = without_owner(of_weight.dimensions[transposed ? 1 : 0]);
  const Tensor &x = node->inputs[0], &groups = node->inputs[1];
  const Route route = route_of(groups, weights);
  const ShardedValue rows = with_experts(x, groups, depth);
  const Tensor y = grouped_linear(unsqueeze(rows.local, 1), route.groups, locals, kAsGiven, mine.begin, transposed);
  ShardedValue made{
      reshape(y, {y.dim(0), y.dim(2)}), {y.dim(0), node->types[0].shape[2]}, {{{}, width}, axes_in(depth)}};
  leave_with_experts(Tensor(node, 0), groups, std::move(made));
  return true;
}

void ExpertRows::shard_weight_gradient(const NodePointer& node) {
  const Tensor &dy = node->inputs[0], &x = node->inputs[1], &groups = node->inputs[2];
  const Route route = routes_.at(groups);
  const auto width_of = [&](const Tensor& tensor) {
    const auto found = with_experts_.find(tensor);
    if (found != with_experts_.end()) return found->second.value.placement.dimensions[1];
    const Cuts cuts = forms_.used(tensor).placement.dimensions.back();
    return has_axis(cuts, kAxis) ? Cuts{} : cuts;
  };
  const Cuts rows = width_of(dy);
  Cuts columns = width_of(x);
  if (!(axes_in(rows) & axes_in(columns)).empty()) columns.clear();
  const ShardedValue dy_rows = with_experts(dy, groups, rows), x_rows = with_experts(x, groups, columns);
  const std::vector<Tensor> made = grouped_linear_weight_gradient(
      unsqueeze(dy_rows.local, 1), unsqueeze(x_rows.local, 1), route.groups, route.experts.size(), route.experts.begin);
  MeshAxes summed = axes_in(route.rows);
  summed.remove(kAxis);
  const auto count = static_cast<int64_t>(node->types.size());
  std::vector<ShardedValue> outputs;
  for (int64_t i = 0; i < count; ++i) {
    ShardedValue output{{}, node->types[static_cast<size_t>(i)].shape, {{rows, columns}, summed}};
    int64_t owner = 0;
    while (part_of({0, count}, owner, forms_.mesh().size(kAxis)).end <= i) ++owner;
    // As parameters are placed (see tensor_parallel_plan.cpp).
    const size_t d = rows.empty() ? 0 : 1;
    if (output.placement.dimensions[d].empty())
      output.placement.dimensions[d] = {owned_cut(kAxis, output.shape[d], owner)};
    if (i >= route.experts.begin && i < route.experts.end)
      output.local = made[static_cast<size_t>(i - route.experts.begin)];
    else output.local = zeros(local_shape(forms_.mesh(), output.placement, output.shape), node->types[0].dtype);
    outputs.push_back(std::move(output));
  }
  forms_.store(node, std::move(outputs));
}

bool ExpertRows::shard_by_elements(const NodePointer& node) {
  if (with_experts_.empty() || !is_by_elements(*node)) return false;
  const WithExperts* first = nullptr;
  for (const Tensor& input : node->inputs)
    if (!first && forms_.is_awaited(input)) first = &with_experts_.at(input);
  if (!first) return false;
  const Tensor groups = first->groups;
  bool alike = true;  // all are sums over the same axes
  const Placement placement = first->value.placement;
  for (const Tensor& input : node->inputs) {
    const auto found = with_experts_.find(input);
    if (found == with_experts_.end()) {
      if (input.rank() != 0 || !forms_.first(input).placement.is_replicated()) return false;
      alike = false;
      continue;
    }
    if (found->second.groups.node() != groups.node() || found->second.groups.output() != groups.output()) return false;
    alike = alike && found->second.value.placement == placement;
  }
  const bool adds = is_op(*node, op::add) || is_op(*node, op::sub);
  Placement wanted = placement;
  if (!adds || !alike) wanted.partial = {};
  std::vector<Tensor> locals;
  Shape shape;
  for (const Tensor& input : node->inputs) {
    if (input.rank() == 0) {
      locals.push_back(forms_.first(input).local);
      continue;
    }
    ShardedValue& value = with_experts_.at(input).value;
    value = forms_.resharder().reshard(value, wanted);
    locals.push_back(value.local);
    shape = value.shape;
  }
  ShardedValue made{make_tensor(*node->operation, std::move(locals), node->attributes), shape, wanted};
  leave_with_experts(Tensor(node, 0), groups, std::move(made));
  return true;
}

}  // namespace transom
