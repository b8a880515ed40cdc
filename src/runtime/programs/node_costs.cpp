// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/node_costs.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ir/graph.h"

namespace transom {
namespace {

std::vector<Type> input_types(const Node& node) {
  std::vector<Type> types;
  for (const Tensor& input : node.inputs) types.push_back(input.type());
  return types;
}

double operations_of_nodes(const Graph& graph) {
  double total = 0;
  for (const std::shared_ptr<Node>& node : graph.nodes) total += operations_of(*node);
  return total;
}

// Of a composite without a rule: what it decomposes into, on inputs of the same types.
double operations_of_decomposition(const Node& node) {
  const CompilerScope compiler;
  std::vector<Tensor> inputs;
  for (const Tensor& input : node.inputs) inputs.push_back(make_input(input.type()));
  return operations_of_nodes(make_graph(node.operation->decompose(inputs, node.attributes), inputs));
}

}  // namespace

Category category_of(const Node& node) {
  const Operation& operation = *node.operation;
  // A fusion with a sum in it walks rows.
  const auto reduces = [](const std::shared_ptr<Node>& inner) {
    return inner->operation->row_wise == RowWise::kReduction;
  };
  if (node.region && std::any_of(node.region->nodes.begin(), node.region->nodes.end(), reduces)) return Category::kRows;
  if (operation.category != Category::kByTraits) return operation.category;
  if (operation.elementwise) return Category::kElements;
  return operation.moves_only ? Category::kMovement : Category::kOther;
}

double bytes_of(const Node& node) {
  if (node.operation->view) return 0;
  if (node.operation->bytes) return node.operation->bytes({input_types(node), node.types, node.attributes});
  double total = 0;
  for (const Tensor& input : node.inputs) total += static_cast<double>(bytes_of(input.type()));
  for (const Type& type : node.types) total += static_cast<double>(bytes_of(type));
  return total;
}

double arithmetic_of(const Node& node) {
  const Category category = node.operation->category;
  return category == Category::kProducts || category == Category::kAttention ? operations_of(node) : 0;
}

double operations_of(const Node& node) {
  const Operation& operation = *node.operation;
  if (node.region) return operations_of_nodes(*node.region);
  if (operation.flops) return operation.flops({input_types(node), node.types, node.attributes});
  if (operation.moves_only) return 0;
  if (operation.elementwise) return static_cast<double>(elements(node.types[0].shape));
  return operation.decompose ? operations_of_decomposition(node) : 0;
}

std::string operation_of(const Node& node) {
  std::string name(node.operation->name);
  if (!node.region) return name;
  constexpr size_t kShown = 6;
  std::string parts;
  const auto& nodes = node.region->nodes;
  for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i)
    parts += (i ? " " : "") + std::string(nodes[i]->operation->name);
  if (nodes.size() > kShown) parts += fmt::format(" and {} more", nodes.size() - kShown);
  return fmt::format("{}({})", name, parts);
}

std::string types_of(const Node& node) { return to_string(input_types(node)) + " -> " + to_string(node.types); }

}  // namespace transom
