// SPDX-License-Identifier: Apache-2.0
// Puts small tensors that depend on the graph's inputs only (the scale of a batch norm, a mask of positions) in front
// of everything else. Then nothing stands between a convolution and the fusion that reads it, and a device can join
// them.
#include <unordered_set>

#include "graph/passes/passes.h"

namespace transom {
namespace {

constexpr int64_t kSmallBytes = 16 << 10;

bool is_small(const Node& node) {
  int64_t bytes = 0;
  for (const Type& type : node.types) bytes += bytes_of(type);
  return bytes <= kSmallBytes;
}

bool is_cheap(const Node& node) {
  return node.operation->elementwise || is_op(node, op::fusion) || is_op(node, op::reshape) ||
         is_op(node, op::broadcast) || is_op(node, op::constant);
}

}  // namespace

Graph hoist_small_values(const Graph& graph) {
  std::unordered_set<const Node*> ready;
  for (const Tensor& input : graph.inputs) ready.insert(input.node().get());
  Graph result{graph.inputs, {}, graph.outputs};
  std::vector<std::shared_ptr<Node>> rest;
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    bool early = is_cheap(*node) && is_small(*node);
    for (const Tensor& input : node->inputs) early = early && ready.contains(input.node().get());
    if (early) ready.insert(node.get());
    (early ? result.nodes : rest).push_back(node);
  }
  result.nodes.insert(result.nodes.end(), rest.begin(), rest.end());
  return result;
}

}  // namespace transom
