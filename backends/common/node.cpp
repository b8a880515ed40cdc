// SPDX-License-Identifier: Apache-2.0
#include "common/node.h"

namespace transom::backend {

std::string place_of(std::string_view op, std::string_view scope) {
  return scope.empty() ? std::string(op) : fmt::format("{} ({})", op, scope);
}

Node::Node(const transom_graph& graph, const transom_node& node)
    : op_(node.op), scope_(node.scope ? node.scope : ""), attributes_(node.attributes, node.attributes_count) {
  for (size_t i = 0; i < node.inputs_count; ++i) inputs_.push_back(type_of(graph, node.inputs[i]));
  for (size_t i = 0; i < node.outputs_count; ++i) outputs_.push_back(type_of(graph, node.outputs[i]));
}

Node::Node(std::string op, const Node& like, std::vector<Type> inputs, std::vector<Type> outputs)
    : op_(std::move(op)),
      scope_(like.scope_),
      attributes_(like.attributes_),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {}

const Type& Node::input(size_t i) const {
  if (i >= inputs_.size()) fail(TRANSOM_INVALID_ARGUMENT, "expected an input {}, found {} inputs", i, inputs_.size());
  return inputs_[i];
}

const Type& Node::output(size_t i) const {
  if (i >= outputs_.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected an output {}, found {} outputs", i, outputs_.size());
  return outputs_[i];
}

}  // namespace transom::backend
