// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/updates_last.h"

#include <algorithm>
#include <unordered_set>

#include "graph/passes/memory_plan.h"

namespace transom {
namespace {

using Nodes = std::unordered_set<const Node*>;

// Those that the nodes are computed from, and the nodes themselves.
Nodes with_ancestors(const Graph& graph, Nodes nodes) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (nodes.contains(node->get()))
      for (const Tensor& input : (*node)->inputs) nodes.insert(input.node().get());
  return nodes;
}

Nodes with_descendants(const Graph& graph, Nodes nodes) {
  for (const std::shared_ptr<Node>& node : graph.nodes)
    if (std::any_of(node->inputs.begin(), node->inputs.end(),
                    [&](const Tensor& input) { return nodes.contains(input.node().get()); }))
      nodes.insert(node.get());
  return nodes;
}

}  // namespace

UpdatesLast updates_last(Graph graph, const std::vector<bool>& donated, const std::vector<bool>& restorable) {
  const size_t count = graph.nodes.size();
  if (std::find(restorable.begin(), restorable.end(), true) == restorable.end()) return {std::move(graph), count};
  const std::vector<int> donor = plan_memory(graph, donated).donor;
  Nodes makers, others;
  for (size_t o = 0; o < graph.outputs.size(); ++o)
    if (donor[o] >= 0 && restorable[static_cast<size_t>(donor[o])]) makers.insert(graph.outputs[o].node().get());
  // What an update makes in the place of a gradient is part of it.
  for (size_t o = 0; o < graph.outputs.size(); ++o)
    if (const Node* maker = graph.outputs[o].node().get(); donor[o] < 0 || !makers.contains(maker))
      others.insert(maker);
  const Nodes needed = with_ancestors(graph, std::move(others));
  std::erase_if(makers, [&](const Node* maker) { return needed.contains(maker); });
  const Nodes late = with_descendants(graph, std::move(makers));
  const auto first =
      std::stable_partition(graph.nodes.begin(), graph.nodes.end(),
                            [&](const std::shared_ptr<Node>& node) { return !late.contains(node.get()); });
  const auto place = static_cast<size_t>(first - graph.nodes.begin());
  return {std::move(graph), place};
}

}  // namespace transom
