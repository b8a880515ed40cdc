// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom {

namespace {

std::vector<Type> types_of(const std::vector<Tensor>& tensors) {
  std::vector<Type> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

}  // namespace

void verify(const Graph& graph) {
  TensorSet made(graph.inputs.begin(), graph.inputs.end());
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const std::string_view name = node->operation->name;
    std::vector<Type> types;
    for (const Tensor& input : node->inputs) {
      if (!made.contains(input))
        fail(ErrorKind::kInternal, "{}: {} uses a value of {} before it is made", *node->scope, name,
             input.node()->operation->name);
      types.push_back(input.type());
    }
    if (node->region) {
      verify(*node->region);
      if (types_of(node->region->inputs) != types)
        fail(ErrorKind::kInternal, "{}: {} has inputs ({}), its region ({})", *node->scope, name, to_string(types),
             to_string(types_of(node->region->inputs)));
      if (types_of(node->region->outputs) != node->types)
        fail(ErrorKind::kInternal, "{}: {} has outputs ({}), its region ({})", *node->scope, name,
             to_string(node->types), to_string(types_of(node->region->outputs)));
      for (const Tensor& output : outputs_of(node)) made.insert(output);
      continue;
    }
    const std::vector<Type> expected = node->operation->infer({*node->operation, types, node->attributes});
    if (expected != node->types)
      fail(ErrorKind::kInternal, "{}: {} has type {}, its rule gives {}", *node->scope, name, to_string(node->types),
           to_string(expected));
    for (const Tensor& output : outputs_of(node)) made.insert(output);
  }
  for (const Tensor& output : graph.outputs)
    if (!made.contains(output)) fail(ErrorKind::kInternal, "an output of the graph is made by nothing in it");
}

}  // namespace transom
