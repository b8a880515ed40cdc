// SPDX-License-Identifier: Apache-2.0
// A node of the plugin interface in C++ form, with its types and attributes. It is a copy, and outlives the graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/types.h"

namespace transom::backend {

// "softmax (encoder.layer.3)", for errors and profiles.
std::string place_of(std::string_view op, std::string_view scope);

class Node {
 public:
  Node(const transom_graph& graph, const transom_node& node);
  // An operation of a backend's own, with the attributes and the scope of another node.
  Node(std::string op, const Node& like, std::vector<Type> inputs, std::vector<Type> outputs);

  const std::string& op() const { return op_; }
  size_t input_count() const { return inputs_.size(); }
  const Type& input(size_t i) const;
  const Type& output(size_t i = 0) const;
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
