// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/place_on_host.h"

#include "graph/ops/on_host.h"
#include "graph/passes/graph_builder.h"

namespace transom {

Graph place_on_host(const Graph& graph, const Supports& runs) {
  const CompilerScope compiler;
  return rewrite(graph, [&](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if (node.operation->collective || runs(node)) return {};
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) leaves.push_back(make_input(input.type()));
    const auto inner = make_node(*node.operation, leaves, node.attributes, node.region);
    auto region = std::make_shared<Graph>(Graph{std::move(leaves), {inner}, outputs_of(inner)});
    return outputs_of(make_node(op::on_host, inputs, {}, std::move(region)));
  });
}

bool is_on_host(const Node& node) { return is_op(node, op::on_host); }

Graph without_host_regions(const Graph& graph) {
  const CompilerScope compiler;
  return rewrite(graph, [](const Node& node, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    return is_on_host(node) ? inline_graph(*node.region, inputs) : std::vector<Tensor>();
  });
}

}  // namespace transom
