// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/passes.h"

namespace transom {
namespace {

std::vector<Tensor> lower(const Node& node, const std::vector<Tensor>& inputs, const Supports& supports);

// Lowers what a decomposition made, as far as it holds composites itself.
std::vector<Tensor> lower_all(std::vector<Tensor> outputs, const std::vector<Tensor>& inputs,
                              const Supports& supports) {
  Graph part = make_graph(outputs, inputs);
  part = rewrite(
      part, [&](const Node& node, const std::vector<Tensor>& new_inputs) { return lower(node, new_inputs, supports); });
  return part.outputs;
}

std::vector<Tensor> lower(const Node& node, const std::vector<Tensor>& inputs, const Supports& supports) {
  // The barrier has kept common subexpressions of a recomputed region apart; none are joined from here on.
  if (is_op(node, op::optimization_barrier)) return inputs;
  if (is_op(node, op::checkpoint)) return lower_all(inline_graph(*node.region, inputs), inputs, supports);
  if (node.operation->kind != OperationKind::kComposite || !node.operation->decompose) return {};
  if (supports(node)) return {};
  return lower_all(node.operation->decompose(inputs, node.attributes), inputs, supports);
}

}  // namespace

Graph lower_composites(const Graph& graph, const Supports& supports) {
  return rewrite(graph,
                 [&](const Node& node, const std::vector<Tensor>& inputs) { return lower(node, inputs, supports); });
}

}  // namespace transom
