// SPDX-License-Identifier: Apache-2.0
// A node of the plugin interface in C++ form, with its types and attributes. It is a copy, and outlives the graph.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/plugin/types.h"

namespace transom::backend {

// "softmax (encoder.layer.3)", for errors and profiles.
inline std::string place_of(std::string_view op, std::string_view scope) {
  return scope.empty() ? std::string(op) : fmt::format("{} ({})", op, scope);
}

class Node {
 public:
  Node(const transom_graph& graph, const transom_node& node)
      : op_(node.op), scope_(node.scope ? node.scope : ""), attributes_(node.attributes, node.attributes_count) {
    for (size_t i = 0; i < node.inputs_count; ++i) inputs_.push_back(type_of(graph, node.inputs[i]));
    for (size_t i = 0; i < node.outputs_count; ++i) outputs_.push_back(type_of(graph, node.outputs[i]));
  }
  // An operation of a backend's own, with the attributes and the scope of another node.
  Node(std::string op, const Node& like, std::vector<Type> inputs, std::vector<Type> outputs)
      : op_(std::move(op)),
        scope_(like.scope_),
        attributes_(like.attributes_),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  const std::string& op() const { return op_; }
  size_t input_count() const { return inputs_.size(); }
  const Type& input(size_t i) const {
    if (i >= inputs_.size()) fail(TRANSOM_INVALID_ARGUMENT, "expected an input {}, found {} inputs", i, inputs_.size());
    return inputs_[i];
  }
  const Type& output(size_t i = 0) const {
    if (i >= outputs_.size())
      fail(TRANSOM_INVALID_ARGUMENT, "expected an output {}, found {} outputs", i, outputs_.size());
    return outputs_[i];
  }
  const std::vector<Type>& inputs() const { return inputs_; }
  const std::vector<Type>& outputs() const { return outputs_; }
  std::string place() const { return place_of(op_, scope_); }

  // Attributes; a missing one is an error unless a default is given.
  int64_t integer(const char* name) const { return attributes_.integer(name); }
  int64_t integer(const char* name, int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }
  double number(const char* name) const { return attributes_.number(name); }
  const Shape& integers(const char* name) const { return attributes_.integers(name); }
  bool has(const char* name) const { return attributes_.has(name); }
  const plugin::Attributes& attributes() const { return attributes_; }

 private:
  std::string op_, scope_;
  plugin::Attributes attributes_;
  std::vector<Type> inputs_, outputs_;
};

}  // namespace transom::backend
