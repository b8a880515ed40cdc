// SPDX-License-Identifier: Apache-2.0
// The graph of the plugin interface in C++ form: types, and a node with its attributes, which outlives the graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/device/error.h"

namespace transom::hpu {

using Shape = std::vector<int64_t>;

struct Type {
  transom_dtype dtype;
  Shape shape;
  int64_t count() const;
  size_t bytes() const;
  bool operator==(const Type&) const = default;
};

size_t element_size(transom_dtype dtype);  // refuses an unknown one
std::string to_string(const Type& type);
inline bool is_floating(transom_dtype dtype) { return dtype >= TRANSOM_FLOAT16; }
int64_t product(const Shape& shape, size_t begin, size_t end);
inline int64_t product(const Shape& shape) { return product(shape, 0, shape.size()); }

// Checks the index and the extents.
Type type_of(const transom_graph& graph, int32_t value);

class Node {
 public:
  Node(const transom_graph& graph, const transom_node& node);
  // An operation of this backend's own, with the attributes of another node.
  Node(std::string op, const Node& like, std::vector<Type> inputs, std::vector<Type> outputs);

  const std::string& op() const { return op_; }
  size_t input_count() const { return inputs_.size(); }
  const Type& input(size_t i) const;
  const Type& output(size_t i = 0) const;
  const std::vector<Type>& inputs() const { return inputs_; }
  const std::vector<Type>& outputs() const { return outputs_; }
  std::string place() const;  // "softmax (encoder.layer.3)"

  // Attributes; a missing one is an error unless a default is given.
  int64_t integer(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const { return find(name) ? integer(name) : otherwise; }
  double number(const char* name) const;
  Shape integers(const char* name) const;
  bool has(const char* name) const { return find(name) != nullptr; }

 private:
  struct Attribute {
    std::string name;
    int32_t kind;
    int64_t integer;
    double number;
    Shape list;
  };
  const Attribute* find(const char* name) const;

  std::string op_, scope_;
  std::vector<Attribute> attributes_;
  std::vector<Type> inputs_, outputs_;
};

}  // namespace transom::hpu
