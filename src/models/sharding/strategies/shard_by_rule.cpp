// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/shard_by_rule.h"

#include <algorithm>

#include "base/error.h"
#include "graph/passes/graph_builder.h"
#include "models/sharding/rules/factor_cuts.h"
#include "models/sharding/strategies/unseen_keys.h"

namespace transom {
namespace {

// Values of at most so many elements are summed later rather than now: the terms of a norm, one by one.
constexpr int64_t kFew = 16;

Placement without_partial(Placement placement, MeshAxes axes) {
  placement.partial = placement.partial.without(axes);
  return placement;
}

}  // namespace

MeshAxes ShardByRule::settle_sums(const Node& node, std::vector<ShardedValue>& inputs) {
  MeshAxes owed;
  for (const ShardedValue& input : inputs) owed = owed | input.placement.partial;
  for (const MeshAxis axis : kAllMeshAxes) {
    if (!owed.has(axis)) continue;
    std::vector<bool> partial;
    for (const ShardedValue& input : inputs) partial.push_back(input.placement.partial.has(axis));
    // A summand of the whole does not meet a part.
    const bool cut = std::any_of(inputs.begin(), inputs.end(),
                                 [&](const ShardedValue& input) { return input.placement.sharded().has(axis); });
    if (cut) {
      owed.remove(axis);
      continue;
    }
    if (is_linear(node, partial)) continue;
    const bool few = node.types[0].shape.size() <= 1 && elements(node.types[0].shape) <= kFew;
    if (few && is_linear(node, std::vector<bool>(partial.size(), true)) && node.inputs.size() == 2) {
      for (ShardedValue& input : inputs) {
        Placement target = input.placement;
        target.partial.add(axis);
        input = forms_.resharder().reshard(input, target);
      }
      continue;
    }
    owed.remove(axis);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const MeshAxes now = inputs[i].placement.partial.without(owed); !now.empty())
      inputs[i] = forms_.in_form(node.inputs[i], where_summed(node, inputs, i, now));
  return owed;
}

Placement ShardByRule::where_summed(const Node& node, const std::vector<ShardedValue>& inputs, size_t i,
                                    MeshAxes over) const {
  Placement target = without_partial(inputs[i].placement, over);
  for (size_t other = 0; other < inputs.size(); ++other) {
    if (other == i || node.inputs[other].shape() != node.inputs[i].shape()) continue;
    for (size_t d = 0; d < target.dimensions.size(); ++d) {
      const Cuts &mine = target.dimensions[d], &theirs = inputs[other].placement.dimensions[d];
      if (theirs.size() != 1 || mine.size() > 1 || theirs == mine || theirs[0].owner >= 0) continue;
      // Cut by what I am cut by, and by one axis more that is summed over.
      std::vector<MeshAxis> before = theirs[0].axes;
      const MeshAxis last = before.back();
      before.pop_back();
      if (!over.has(last) || target.sharded().has(last)) continue;
      if (before.empty() ? mine.empty() : !mine.empty() && with_axes(forms_.mesh(), theirs[0], before) == mine[0])
        target.dimensions[d] = theirs;
    }
  }
  return target;
}

void ShardByRule::shard(const NodePointer& node, const FactorRule& rule) {
  std::vector<ShardedValue> inputs;
  // What only moves or casts a stored tensor is done to its parts: fewer bytes are gathered, and nothing that is whole
  // outlives the phase.
  MeshAxes stored;
  if (node->inputs.size() == 1 && node->operation->moves_only && forms_.phase() != StepPhase::kUpdate) {
    const ShardedValue& first = forms_.first(node->inputs[0]);
    if (cuts_of_factors(forms_.mesh(), rule, rule.inputs[0], first.placement)) {
      stored = forms_.stored(node->inputs[0]);
      if (!stored.empty()) inputs.push_back(first);
    }
  }
  if (inputs.empty())
    for (const Tensor& input : node->inputs) inputs.push_back(forms_.used(input));
  shard_inputs(node, rule, std::move(inputs), stored);
}

void ShardByRule::shard_inputs(const NodePointer& node, const FactorRule& rule, std::vector<ShardedValue> inputs,
                               MeshAxes stored) {
  const ProcessMesh& mesh = forms_.mesh();
  const MeshAxes owed = settle_sums(*node, inputs);
  const bool product =
      node->operation->category == Category::kProducts || node->operation->category == Category::kAttention;
  if (product) stretches_.gather(*node, rule, inputs);
  std::vector<OperandValue> operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back({node->inputs[i].type(), without_partial(inputs[i].placement, owed)});
  const FactorCuts cuts = choose_cuts(mesh, rule, operands, node->types, product);
  MeshAxes summed;
  for (const FactorRule::Operand& output : rule.outputs) summed = summed | summed_axes(rule, output, cuts);
  std::vector<Tensor> locals;
  std::vector<Shape> shapes;
  Placement of_first;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Placement placement = placement_of(mesh, rule, rule.inputs[i], cuts);
    placement.partial = inputs[i].placement.partial;
    // Of few elements, what was made a summand above is not among the forms.
    ShardedValue given = inputs[i].placement == placement ? inputs[i]
                         : forms_.first(node->inputs[i]).placement.partial == placement.partial
                             ? forms_.in_form(node->inputs[i], placement)
                             : forms_.resharder().reshard(inputs[i], placement);
    if (std::find(rule.added_once.begin(), rule.added_once.end(), i) != rule.added_once.end()) {
      placement.partial = placement.partial | summed;
      given = forms_.resharder().reshard(given, placement);
    }
    if (i == 0) of_first = given.placement;
    locals.push_back(given.local);
    shapes.push_back(given.local.shape());
  }
  leave_out_unseen_keys(mesh, *node, of_first, locals);
  std::vector<ShardedValue> outputs;
  for (size_t i = 0; i < node->types.size(); ++i) {
    ShardedValue output{{}, node->types[i].shape, placement_of(mesh, rule, rule.outputs[i], cuts)};
    output.placement.partial = owed | summed_axes(rule, rule.outputs[i], cuts);
    outputs.push_back(std::move(output));
  }
  const Shape first = local_shape(mesh, outputs[0].placement, outputs[0].shape);
  std::vector<Tensor> made = make_tensors(*node->operation, std::move(locals), local_attributes(*node, shapes, first));
  add_unseen_keys(*node, made);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].local = made[i];
    const Shape expected = local_shape(mesh, outputs[i].placement, outputs[i].shape);
    if (made[i].shape() != expected)
      fail(ErrorKind::kInternal, "{} on {}: expected a part of {}, made {}", node->operation->name,
           to_string(outputs[i].placement), to_string(expected), to_string(made[i].shape()));
  }
  const bool stays = !stored.empty() && (outputs[0].placement.sharded() & stored) == stored;
  forms_.store(node, std::move(outputs));
  if (stays) forms_.set_stored(Tensor(node, 0), stored);
}

}  // namespace transom
