// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/shard_graph.h"

#include <algorithm>

#include "graph/ir/graph.h"
#include "graph/ops/records.h"
#include "graph/passes/graph_builder.h"

namespace transom {

GraphSharder::GraphSharder(const ProcessMesh& mesh, StepPhases phases, bool keeps_gathered, ContextStrategy context)
    : phases_(phases),
      forms_(mesh, keeps_gathered),
      stretches_(forms_),
      by_rule_(forms_, stretches_),
      experts_(forms_),
      joined_(forms_),
      cut_dimensions_(forms_),
      attention_(forms_, stretches_, by_rule_, context) {}

void GraphSharder::cut_sequences_along_tensor_axis(bool cut) {
  if (cut) stretches_.begin();
}

void GraphSharder::place(const Tensor& input, ShardedValue value, MeshAxes stored) {
  forms_.place(input, std::move(value), stored);
}

void GraphSharder::cut(const Tensor& input, const Placement& placement) {
  const CompilerScope compiler;
  const ShardedValue whole{input, input.shape(), replicated(input.shape().size())};
  place(input, forms_.resharder().reshard(whole, placement));
}

void GraphSharder::shard(const std::vector<Tensor>& outputs) {
  const CompilerScope compiler;
  const Graph graph = make_graph(outputs);
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (forms_.contains(Tensor(node, 0))) continue;
    const StepPhase phase = node->sequence >= phases_.update_from     ? StepPhase::kUpdate
                            : node->sequence >= phases_.backward_from ? StepPhase::kBackward
                                                                      : StepPhase::kForward;
    enter(phase);
    const UseScope scope(node->scope);
    visit(node);
  }
}

void GraphSharder::enter(StepPhase phase) {
  if (phase == forms_.phase()) return;
  if (forms_.phase() == StepPhase::kForward) local_backward_from_ = make_input({}).node()->sequence;
  stretches_.forget_gathered();
  forms_.enter(phase);
}

ShardedValue GraphSharder::value(const Tensor& tensor, const Placement& placement) {
  const CompilerScope compiler;
  return forms_.in_form(tensor, placement);
}

void GraphSharder::visit(const NodePointer& node) {
  if (node->operation == &op::optimization_barrier) return pass_barrier(node);
  if (node->region) return visit_in_place_of(node, inline_graph(*node->region, node->inputs));
  if (node->inputs.empty()) return replicate(node);
  NodeStrategy* const strategies[] = {&experts_, &joined_, &cut_dimensions_, &attention_};
  for (NodeStrategy* strategy : strategies) {
    const Sharded sharded = strategy->shard(node);
    if (sharded == Sharded::kByDecomposition) return visit_decomposed(node);
    if (sharded == Sharded::kYes) return;
  }
  if (const auto rule = factor_rule(*node)) return by_rule_.shard(node, *rule);
  const bool cut = std::any_of(node->inputs.begin(), node->inputs.end(),
                               [&](const Tensor& input) { return !forms_.first(input).placement.is_replicated(); });
  if (cut && node->operation->decompose) return visit_decomposed(node);
  replicate(node);
}

void GraphSharder::visit_decomposed(const NodePointer& node) {
  visit_in_place_of(node, node->operation->decompose(node->inputs, node->attributes));
}

void GraphSharder::visit_in_place_of(const NodePointer& node, const std::vector<Tensor>& outputs) {
  const Graph graph = make_graph(outputs, node->inputs);
  for (const NodePointer& inner : graph.nodes)
    if (!forms_.contains(Tensor(inner, 0))) {
      const UseScope scope(inner->scope);
      visit(inner);
    }
  std::vector<ShardedValue> values;
  for (const Tensor& output : outputs) values.push_back(forms_.first(output));
  forms_.store(node, std::move(values));
}

// What is stored in parts stays so: it is gathered where it is used. It passes by the barrier, so that its gather waits
// for nothing but its turn: no two gathers are one, whatever they are of.
void GraphSharder::pass_barrier(const NodePointer& node) {
  std::vector<Tensor> locals;
  std::vector<ShardedValue> values;
  std::vector<MeshAxes> stored;
  for (const Tensor& input : node->inputs) {
    values.push_back(forms_.first(input));
    stored.push_back(forms_.stored(input));
    if (stored.back().empty()) locals.push_back(values.back().local);
  }
  if (!locals.empty()) locals = make_tensors(op::optimization_barrier, locals);
  size_t passed = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (stored[i].empty()) values[i].local = locals[passed++];
  forms_.store(node, std::move(values));
  for (size_t i = 0; i < stored.size(); ++i) forms_.set_stored(Tensor(node, static_cast<int>(i)), stored[i]);
}

void GraphSharder::replicate(const NodePointer& node) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : node->inputs)
    inputs.push_back(forms_.in_form(input, replicated(input.shape().size())).local);
  std::vector<ShardedValue> outputs;
  for (const Tensor& local : outputs_of(make_node(*node->operation, std::move(inputs), node->attributes, node->region)))
    outputs.push_back({local, local.shape(), replicated(local.shape().size())});
  forms_.store(node, std::move(outputs));
}

}  // namespace transom
