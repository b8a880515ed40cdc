// SPDX-License-Identifier: Apache-2.0
// Recomputation in the backward pass (Chen et al., "Training deep nets with sublinear memory cost", 2016).
//
// A checkpoint is one node that holds what the function did as a region over stand-ins, so that nothing but its inputs
// outlives the forward pass. The reverse sweep (gradients.cpp) lays a copy of the region behind an optimization_barrier
// and differentiates that copy. The barrier makes the copy's inputs other values than those of the forward pass, so
// that common-subexpression elimination cannot merge the two, and ties them to the incoming gradient, so that no
// scheduler may compute the copy early. Only what depends on no input at all (a mask made of constants) is still
// shared.
#include <unordered_set>

#include "graph/ir/claimed_graph.h"
#include "graph/ir/region_scope.h"
#include "graph/ir/tensor_map.h"
#include "graph/ops/records.h"
#include "transom/gradients.h"

namespace transom {
namespace {

// The tensors that existed before node `first` was made and that `output` is computed from: the arguments, but also
// weights and whatever else the function captured, each of which must get its gradient.
std::vector<Tensor> inputs_before(uint64_t first, const Tensor& output) {
  std::vector<Tensor> inputs, pending{output};
  TensorSet found;
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    const Tensor tensor = std::move(pending.back());
    pending.pop_back();
    const Node& node = *tensor.node();
    if (node.sequence < first || is_input(node) || node.computed(tensor.output())) {
      if (found.insert(tensor).second) inputs.push_back(tensor);
    } else if (seen.insert(&node).second) {
      pending.insert(pending.end(), node.inputs.rbegin(), node.inputs.rend());
    }
  }
  return inputs;
}

// The same graph over inputs of its own, which keep nothing alive.
std::shared_ptr<const Graph> over_stand_ins(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : graph.inputs) inputs.push_back(make_input(input.type()));
  return std::make_shared<Graph>(make_graph(inline_graph(graph, inputs), inputs));
}

}  // namespace

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs) {
  std::vector<Tensor> region_inputs;
  std::shared_ptr<const Graph> region;
  {
    const RegionScope only_traced;  // eager mode must not run what goes into the region
    const uint64_t first = make_input({}).node()->sequence;
    const Tensor output = function(inputs);
    const ClaimedGraph claimed([&] {
      region_inputs = inputs_before(first, output);
      return make_graph({output}, region_inputs);
    });
    region = over_stand_ins(claimed.graph());
  }
  return {make_node(op::checkpoint, std::move(region_inputs), {}, std::move(region)), 0};
}

}  // namespace transom
