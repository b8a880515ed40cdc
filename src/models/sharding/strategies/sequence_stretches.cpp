// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/sequence_stretches.h"

#include <algorithm>

#include "graph/passes/graph_builder.h"
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

bool is_stretch(const ShardedValue& value) { return cuts_places(value.placement) && value.placement.partial.empty(); }
bool is_gathered(const ShardedValue& value) {
  return !value.placement.partial.has(kTensorAxis) && !value.placement.sharded().has(kTensorAxis);
}

// Which factor the axis cuts; -1: none.
int cut_factor(const FactorCuts& factors) {
  for (size_t f = 0; f < factors.size(); ++f)
    for (const Cut& cut : factors[f])
      if (std::find(cut.axes.begin(), cut.axes.end(), kTensorAxis) != cut.axes.end()) return static_cast<int>(f);
  return -1;
}

}  // namespace

void SequenceStretches::begin() {
  on_ = forms_.mesh().size(kTensorAxis) > 1;
  if (on_) forms_.change_results([this](ShardedValue value) { return into_stretches(std::move(value)); });
}

ShardedValue SequenceStretches::into_stretches(ShardedValue value) {
  // Gradients are summed over all that they come from before they are scattered: where they meet a value that is cut.
  if (forms_.phase() != StepPhase::kForward || !value.placement.partial.has(kTensorAxis) ||
      value.shape.size() < kFewestDimensions || !is_floating(value.local.dtype()) ||
      value.placement.sharded().has(kTensorAxis))
    return value;
  Placement target = cut_further(forms_.mesh(), value.placement, value.shape, kPlaceDimension, kTensorAxis);
  if (target == value.placement) return value;  // too few places
  target.partial.remove(kTensorAxis);
  return forms_.resharder().reshard(value, target);
}

ShardedValue SequenceStretches::with_all_places(const Tensor& tensor, const ShardedValue& value) {
  if (!value.placement.sharded().has(kTensorAxis)) return value;
  const Placement whole = without_axes(forms_.mesh(), value.placement, {kTensorAxis});
  // Several products use what only moves the elements of one tensor (gradients of weights, its rows): that is gathered,
  // once for all of them.
  const Node& node = *tensor.node();
  if (node.operation->moves_only && node.inputs.size() == 1 && node.types.size() == 1 && !node.region) {
    const ShardedValue from = forms_.first(node.inputs[0]);
    const auto rule = factor_rule(node);
    if (rule && from.placement.partial.empty() && from.placement.sharded().has(kTensorAxis)) {
      const ShardedValue gathered = with_all_places(node.inputs[0], from);
      const auto cuts = cuts_of_factors(forms_.mesh(), *rule, rule->inputs[0], gathered.placement);
      if (cuts && placement_of(forms_.mesh(), *rule, rule->outputs[0], *cuts) == whole) {
        const Attributes attributes =
            local_attributes(node, {gathered.local.shape()}, local_shape(forms_.mesh(), whole, value.shape));
        ShardedValue moved{make_tensor(*node.operation, {gathered.local}, attributes), value.shape, whole};
        forms_.add(tensor, moved);
        return moved;
      }
    }
  }
  return forms_.in_form(tensor, whole);
}

void SequenceStretches::gather(const Node& node, const FactorRule& rule, std::vector<ShardedValue>& inputs) {
  if (!on_) return;
  std::vector<int> factors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto cuts = cuts_of_factors(forms_.mesh(), rule, rule.inputs[i], inputs[i].placement);
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

void SequenceStretches::forget_gathered() {
  if (on_) forms_.drop(is_stretch, is_gathered);
}

}  // namespace transom
