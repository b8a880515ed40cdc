// SPDX-License-Identifier: Apache-2.0
// Sequence parallel beside tensor parallel (see GraphSharder): norms, dropout and residuals work on the stretches of
// sequences that sums over tp are scattered to. Which these are follows from placements alone.
#include <algorithm>

#include "graph/passes/graph_builder.h"
#include "models/sharding/rewrite/shard_graph.h"
#include "models/sharding/rules/factor_cuts.h"

namespace transom {
namespace {

constexpr MeshAxis kTensorAxis = MeshAxis::kTensor;
constexpr size_t kPlaceDimension = 1, kFewestDimensions = 3;  // [batch, places, width]

bool cuts_places(const Placement& placement) {
  if (placement.dimensions.size() < kFewestDimensions) return false;
  const Cuts& cuts = placement.dimensions[kPlaceDimension];
  return std::any_of(cuts.begin(), cuts.end(), [](const Cut& cut) {
    return std::find(cut.axes.begin(), cut.axes.end(), kTensorAxis) != cut.axes.end();
  });
}

// Which factor the axis cuts; -1: none.
int cut_factor(const FactorCuts& factors) {
  for (size_t f = 0; f < factors.size(); ++f)
    for (const Cut& cut : factors[f])
      if (std::find(cut.axes.begin(), cut.axes.end(), kTensorAxis) != cut.axes.end()) return static_cast<int>(f);
  return -1;
}

}  // namespace

ShardedValue GraphSharder::into_stretches(ShardedValue value, Phase phase) {
  // Gradients are summed over all that they come from before they are scattered: where they meet a value that is cut.
  if (phase != Phase::kForward || !value.placement.partial.has(kTensorAxis) || value.shape.size() < kFewestDimensions ||
      !is_floating(value.local.dtype()) || value.placement.sharded().has(kTensorAxis))
    return value;
  Placement target = cut_further(mesh_, value.placement, value.shape, kPlaceDimension, kTensorAxis);
  if (target == value.placement) return value;  // too few places
  target.partial.remove(kTensorAxis);
  return resharder_.reshard(value, target);
}

ShardedValue GraphSharder::with_all_places(const Tensor& tensor, const ShardedValue& value) {
  if (!value.placement.sharded().has(kTensorAxis)) return value;
  const Placement whole = without_axes(mesh_, value.placement, {kTensorAxis});
  // Several products use what only moves the elements of one tensor (gradients of weights, its rows): that is gathered,
  // once for all of them.
  const Node& node = *tensor.node();
  if (node.operation->moves_only && node.inputs.size() == 1 && node.types.size() == 1 && !node.region) {
    const ShardedValue from = forms_of(node.inputs[0]).values.front();
    const auto rule = factor_rule(node);
    if (rule && from.placement.partial.empty() && from.placement.sharded().has(kTensorAxis)) {
      const ShardedValue gathered = with_all_places(node.inputs[0], from);
      const auto cuts = cuts_of_factors(mesh_, *rule, rule->inputs[0], gathered.placement);
      if (cuts && placement_of(mesh_, *rule, rule->outputs[0], *cuts) == whole) {
        const Attributes attributes =
            local_attributes(node, {gathered.local.shape()}, local_shape(mesh_, whole, value.shape));
        ShardedValue moved{make_tensor(*node.operation, {gathered.local}, attributes), value.shape, whole};
        forms_of(tensor).values.push_back(moved);
        return moved;
      }
    }
  }
  return in_form(tensor, whole);
}

void GraphSharder::gather_stretches(const Node& node, const FactorRule& rule, std::vector<ShardedValue>& inputs) {
  std::vector<int> factors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto cuts = cuts_of_factors(mesh_, rule, rule.inputs[i], inputs[i].placement);
    factors.push_back(cuts ? cut_factor(*cuts) : -1);
  }
  const auto conflicts = [&](size_t i) {
    return factors[i] >= 0 &&
           std::any_of(factors.begin(), factors.end(), [&](int other) { return other >= 0 && other != factors[i]; });
  };
  // What is summed over, or else the rows of what weights are multiplied with, gives way.
  const auto rank = [&](size_t i) {
    const bool summed = rule.factors[static_cast<size_t>(factors[i])].kind == FactorRule::Kind::kSum;
    return (cuts_places(inputs[i].placement) ? 2 : 0) + (summed ? 1 : 0);
  };
  while (true) {
    size_t chosen = inputs.size();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (conflicts(i) && (chosen == inputs.size() || rank(i) > rank(chosen))) chosen = i;
    if (chosen == inputs.size()) return;
    inputs[chosen] = with_all_places(node.inputs[chosen], inputs[chosen]);
    factors[chosen] = -1;
  }
}

// What a product had whole is not kept for the backward pass, which gathers it again.
void GraphSharder::forget_gathered_stretches() {
  for (auto& [tensor, forms] : forms_) {
    std::vector<ShardedValue>& values = forms.values;
    const bool cut = std::any_of(values.begin(), values.end(), [](const ShardedValue& value) {
      return cuts_places(value.placement) && value.placement.partial.empty();
    });
    if (!cut) continue;
    const auto is_gathered = [&](const ShardedValue& value) {
      return !value.placement.partial.has(kTensorAxis) && !value.placement.sharded().has(kTensorAxis);
    };
    values.erase(std::remove_if(values.begin() + 1, values.end(), is_gathered), values.end());
  }
}

}  // namespace transom
