// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/shard_graph.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"
#include "models/sharding/rewrite/cut_sequences.h"
#include "models/sharding/rules/factor_cuts.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Values of at most so many elements are summed later rather than now: the terms of a norm, one by one.
constexpr int64_t kFew = 16;

Placement without_partial(Placement placement, MeshAxes axes) {
  placement.partial = placement.partial.without(axes);
  return placement;
}

}  // namespace

void GraphSharder::place(const Tensor& input, ShardedValue value, MeshAxes stored) {
  forms_.insert_or_assign(input, Forms{{std::move(value)}, stored});
}

void GraphSharder::cut(const Tensor& input, const Placement& placement) {
  const CompilerScope compiler;
  const ShardedValue whole{input, input.shape(), replicated(input.shape().size())};
  place(input, resharder_.reshard(whole, placement));
}

void GraphSharder::prefer(const Tensor& tensor, const Placement& placement) {
  preferred_.insert_or_assign(tensor, placement);
}

GraphSharder::Forms& GraphSharder::forms_of(const Tensor& tensor) {
  const auto found = forms_.find(tensor);
  if (found != forms_.end()) {
    if (found->second.values.empty()) found->second.values.push_back(brought_home(tensor));
    return found->second;
  }
  if (!tensor.node()->computed(tensor.output()))
    fail(ErrorKind::kInternal, "{}: a value of {} is to be sharded that nothing makes", *tensor.node()->scope,
         to_string(tensor.type()));
  return forms_[tensor] = Forms{{{tensor, tensor.shape(), replicated(tensor.shape().size())}}, {}};
}

void GraphSharder::shard(const std::vector<Tensor>& outputs) {
  const CompilerScope compiler;
  const Graph graph = make_graph(outputs);
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (forms_.contains(Tensor(node, 0))) continue;
    const Phase phase = node->sequence >= phases_.update_from     ? Phase::kUpdate
                        : node->sequence >= phases_.backward_from ? Phase::kBackward
                                                                  : Phase::kForward;
    enter(phase);
    const UseScope scope(node->scope);
    visit(node, phase);
  }
}

// What a phase gathered of stored tensors is not kept for the next one, but for the last unit of the forward pass, with
// which the backward pass begins. In a pipeline other micro-batches come between.
void GraphSharder::enter(Phase phase) {
  if (phase == phase_) return;
  if (phase_ == Phase::kForward) local_backward_from_ = make_input({}).node()->sequence;
  if (cuts_sequences_) forget_gathered_stretches();
  const bool keep = keeps_gathered_ && phase == Phase::kBackward;
  phase_ = phase;
  if (keep) return;
  const bool follows = phase == Phase::kBackward && mesh_.size(MeshAxis::kPipeline) == 1;
  for (auto& [tensor, forms] : forms_)
    if (!forms.stored.empty() && forms.values.size() > 1 && !(follows && forms.used_in == resharder_.parameter_unit()))
      forms.values.resize(1);
}

ShardedValue GraphSharder::value(const Tensor& tensor, const Placement& placement) {
  const CompilerScope compiler;
  return in_form(tensor, placement);
}

const ShardedValue& GraphSharder::value(const Tensor& tensor) const { return forms_.at(tensor).values.front(); }

ShardedValue GraphSharder::in_form(const Tensor& tensor, const Placement& placement) {
  Forms& forms = forms_of(tensor);
  const ShardedValue* nearest = nullptr;
  double fewest = 0;
  for (const ShardedValue& value : forms.values) {
    if (value.placement == placement) {
      forms.used_in = resharder_.parameter_unit();
      return value;
    }
    const double bytes = bytes_moved(mesh_, tensor.type(), value.placement, placement);
    if (!nearest || bytes < fewest) nearest = &value, fewest = bytes;
  }
  if (!forms.stored.empty()) resharder_.work_for(Resharder::Purpose::kParameters);
  ShardedValue made = resharder_.reshard(*nearest, placement);
  resharder_.work_for(Resharder::Purpose::kValues);
  forms.used_in = resharder_.parameter_unit();
  forms.values.push_back(made);
  return made;
}

ShardedValue GraphSharder::used(const Tensor& tensor, Phase phase) {
  const Forms& forms = forms_of(tensor);
  if (forms.stored.empty() || phase == Phase::kUpdate) return forms.values.front();
  return in_form(tensor, without_axes(mesh_, forms.values.front().placement, forms.stored));
}

void GraphSharder::store(const NodePointer& node, std::vector<ShardedValue> outputs) {
  if (observer_) observer_(*node, outputs[0]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor tensor(node, static_cast<int>(i));
    if (cuts_sequences_) outputs[i] = into_stretches(std::move(outputs[i]), phase_);
    if (const auto wanted = preferred_.find(tensor); wanted != preferred_.end()) {
      resharder_.work_for(Resharder::Purpose::kGradients);
      outputs[i] = resharder_.reshard(outputs[i], wanted->second);
      resharder_.work_for(Resharder::Purpose::kValues);
    }
    forms_.insert_or_assign(tensor, Forms{{std::move(outputs[i])}, {}});
  }
}

void GraphSharder::visit(const NodePointer& node, Phase phase) {
  if (node->operation == &op::optimization_barrier) return pass_barrier(node);
  if (node->region) return visit_in_place_of(node, inline_graph(*node->region, node->inputs), phase);
  if (node->inputs.empty()) return replicate(node);
  if (shard_grouped(node, phase) || shard_with_experts(node)) return;
  if (shard_along_cut(node, phase) || shard_attention(node, phase)) return;
  if (const auto rule = factor_rule(*node)) return shard_by_rule(node, *rule, phase);
  const bool cut = std::any_of(node->inputs.begin(), node->inputs.end(), [&](const Tensor& input) {
    return !forms_of(input).values.front().placement.is_replicated();
  });
  if (cut && node->operation->decompose)
    return visit_in_place_of(node, node->operation->decompose(node->inputs, node->attributes), phase);
  replicate(node);
}

void GraphSharder::visit_in_place_of(const NodePointer& node, const std::vector<Tensor>& outputs, Phase phase) {
  const Graph graph = make_graph(outputs, node->inputs);
  for (const NodePointer& inner : graph.nodes)
    if (!forms_.contains(Tensor(inner, 0))) {
      const UseScope scope(inner->scope);
      visit(inner, phase);
    }
  std::vector<ShardedValue> values;
  for (const Tensor& output : outputs) values.push_back(forms_of(output).values.front());
  store(node, std::move(values));
}

// What is stored in parts stays so: it is gathered where it is used. It passes by the barrier, so that its gather waits
// for nothing but its turn: no two gathers are one, whatever they are of.
void GraphSharder::pass_barrier(const NodePointer& node) {
  std::vector<Tensor> locals;
  std::vector<ShardedValue> values;
  std::vector<MeshAxes> stored;
  for (const Tensor& input : node->inputs) {
    const Forms& forms = forms_of(input);
    values.push_back(forms.values.front());
    stored.push_back(forms.stored);
    if (forms.stored.empty()) locals.push_back(values.back().local);
  }
  if (!locals.empty()) locals = make_tensors(op::optimization_barrier, locals);
  size_t passed = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (stored[i].empty()) values[i].local = locals[passed++];
  store(node, std::move(values));
  for (size_t i = 0; i < stored.size(); ++i) forms_.at(Tensor(node, static_cast<int>(i))).stored = stored[i];
}

void GraphSharder::replicate(const NodePointer& node) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : node->inputs) inputs.push_back(in_form(input, replicated(input.shape().size())).local);
  std::vector<ShardedValue> outputs;
  for (const Tensor& local : outputs_of(make_node(*node->operation, std::move(inputs), node->attributes, node->region)))
    outputs.push_back({local, local.shape(), replicated(local.shape().size())});
  store(node, std::move(outputs));
}

MeshAxes GraphSharder::settle_sums(const Node& node, std::vector<ShardedValue>& inputs) {
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
        input = resharder_.reshard(input, target);
      }
      continue;
    }
    owed.remove(axis);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const MeshAxes now = inputs[i].placement.partial.without(owed); !now.empty())
      inputs[i] = in_form(node.inputs[i], where_summed(node, inputs, i, now));
  return owed;
}

Placement GraphSharder::where_summed(const Node& node, const std::vector<ShardedValue>& inputs, size_t i,
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
      if (before.empty() ? mine.empty() : !mine.empty() && with_axes(mesh_, theirs[0], before) == mine[0])
        target.dimensions[d] = theirs;
    }
  }
  return target;
}

void GraphSharder::shard_by_rule(const NodePointer& node, const FactorRule& rule, Phase phase) {
  std::vector<ShardedValue> inputs;
  // What only moves or casts a stored tensor is done to its parts: fewer bytes are gathered, and nothing that is whole
  // outlives the phase.
  MeshAxes stored;
  if (node->inputs.size() == 1 && node->operation->moves_only && phase != Phase::kUpdate) {
    const Forms& forms = forms_of(node->inputs[0]);
    if (cuts_of_factors(mesh_, rule, rule.inputs[0], forms.values.front().placement)) {
      stored = forms.stored;
      if (!stored.empty()) inputs.push_back(forms.values.front());
    }
  }
  if (inputs.empty())
    for (const Tensor& input : node->inputs) inputs.push_back(used(input, phase));
  shard_inputs_by_rule(node, rule, std::move(inputs), stored);
}

void GraphSharder::shard_inputs_by_rule(const NodePointer& node, const FactorRule& rule,
                                        std::vector<ShardedValue> inputs, MeshAxes stored) {
  const MeshAxes owed = settle_sums(*node, inputs);
  const bool product =
      node->operation->category == Category::kProducts || node->operation->category == Category::kAttention;
  if (cuts_sequences_ && product) gather_stretches(*node, rule, inputs);
  std::vector<OperandValue> operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back({node->inputs[i].type(), without_partial(inputs[i].placement, owed)});
  const FactorCuts cuts = choose_cuts(mesh_, rule, operands, node->types, product);
  MeshAxes summed;
  for (const FactorRule::Operand& output : rule.outputs) summed = summed | summed_axes(rule, output, cuts);
  std::vector<Tensor> locals;
  std::vector<Shape> shapes;
  Placement of_first;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Placement placement = placement_of(mesh_, rule, rule.inputs[i], cuts);
    placement.partial = inputs[i].placement.partial;
    // Of few elements, what was made a summand above is not among the forms.
    ShardedValue given = inputs[i].placement == placement ? inputs[i]
                         : forms_of(node->inputs[i]).values.front().placement.partial == placement.partial
                             ? in_form(node->inputs[i], placement)
                             : resharder_.reshard(inputs[i], placement);
    if (std::find(rule.added_once.begin(), rule.added_once.end(), i) != rule.added_once.end()) {
      placement.partial = placement.partial | summed;
      given = resharder_.reshard(given, placement);
    }
    if (i == 0) of_first = given.placement;
    locals.push_back(given.local);
    shapes.push_back(given.local.shape());
  }
  leave_out_unseen_keys(mesh_, *node, of_first, locals);
  std::vector<ShardedValue> outputs;
  for (size_t i = 0; i < node->types.size(); ++i) {
    ShardedValue output{{}, node->types[i].shape, placement_of(mesh_, rule, rule.outputs[i], cuts)};
    output.placement.partial = owed | summed_axes(rule, rule.outputs[i], cuts);
    outputs.push_back(std::move(output));
  }
  const Shape first = local_shape(mesh_, outputs[0].placement, outputs[0].shape);
  std::vector<Tensor> made = make_tensors(*node->operation, std::move(locals), local_attributes(*node, shapes, first));
  add_unseen_keys(*node, made);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].local = made[i];
    const Shape expected = local_shape(mesh_, outputs[i].placement, outputs[i].shape);
    if (made[i].shape() != expected)
      fail(ErrorKind::kInternal, "{} on {}: expected a part of {}, made {}", node->operation->name,
           to_string(outputs[i].placement), to_string(expected), to_string(made[i].shape()));
  }
  const bool stays = !stored.empty() && (outputs[0].placement.sharded() & stored) == stored;
  store(node, std::move(outputs));
  if (stays) forms_.at(Tensor(node, 0)).stored = stored;
}

}  // namespace transom
