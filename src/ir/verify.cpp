// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ir/graph.h"
#include "ir/tensor_map.h"

namespace transom {

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
      for (size_t i = 0; i < node->types.size(); ++i)
        if (node->types[i] != node->region->outputs.at(i).type())
          fail(ErrorKind::kInternal, "{}: a fusion's output is {}, its region gives {}", *node->scope,
               to_string(node->types[i]), to_string(node->region->outputs[i].type()));
      for (const Tensor& output : outputs_of(node)) made.insert(output);
      continue;
    }
    const std::vector<Type> expected = node->operation->infer({*node->operation, types, node->attributes});
    if (expected != node->types)
      fail(ErrorKind::kInternal, "{}: {} has type {}, its rule gives {}", *node->scope, name, to_string(node->types.at(0)),
           to_string(expected.at(0)));
    for (const Tensor& output : outputs_of(node)) made.insert(output);
  }
  for (const Tensor& output : graph.outputs)
    if (!made.contains(output)) fail(ErrorKind::kInternal, "an output of the graph is made by nothing in it");
}

}  // namespace transom
