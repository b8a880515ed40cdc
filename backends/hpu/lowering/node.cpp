// SPDX-License-Identifier: Apache-2.0
#include "hpu/lowering/node.h"

#include <algorithm>

namespace transom::hpu {

size_t element_size(transom_dtype dtype) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
    case TRANSOM_INT8:
      return 1;
    case TRANSOM_FLOAT16:
    case TRANSOM_BFLOAT16:
      return 2;
    case TRANSOM_INT32:
    case TRANSOM_UINT32:
    case TRANSOM_FLOAT32:
      return 4;
    case TRANSOM_INT64:
    case TRANSOM_FLOAT64:
      return 8;
  }
  fail(TRANSOM_INVALID_ARGUMENT, "expected an element type of the interface, found number {}", static_cast<int>(dtype));
}

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

int64_t Type::count() const { return product(shape); }
size_t Type::bytes() const { return static_cast<size_t>(count()) * element_size(dtype); }

std::string to_string(const Type& type) {
  static const char* const names[] = {"bool", "u8", "i8", "i32", "i64", "u32", "f16", "bf16", "f32", "f64"};
  return fmt::format("{}[{}]", names[type.dtype], fmt::join(type.shape, ", "));
}

Type type_of(const transom_graph& graph, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= graph.values_count)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a value below {}, found {}", graph.values_count, index);
  const transom_value& value = graph.values[index];
  Type type{static_cast<transom_dtype>(value.dtype), Shape(value.shape, value.shape + value.rank)};
  element_size(type.dtype);
  int64_t count = 1;
  for (const int64_t extent : type.shape)
    if (extent < 0 || __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count) || count > INT64_MAX / 8)
      fail(TRANSOM_INVALID_ARGUMENT, "expected extents of at least 0 that fit memory, found {}", to_string(type));
  return type;
}

Node::Node(const transom_graph& graph, const transom_node& node) : op_(node.op), scope_(node.scope ? node.scope : "") {
  for (size_t i = 0; i < node.inputs_count; ++i) inputs_.push_back(type_of(graph, node.inputs[i]));
  for (size_t i = 0; i < node.outputs_count; ++i) outputs_.push_back(type_of(graph, node.outputs[i]));
  for (size_t i = 0; i < node.attributes_count; ++i) {
    const transom_attribute& attribute = node.attributes[i];
    attributes_.push_back({attribute.name, attribute.kind, attribute.int_value, attribute.float_value,
                           Shape(attribute.ints, attribute.ints + attribute.ints_count)});
  }
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

std::string Node::place() const { return scope_.empty() ? op_ : fmt::format("{} ({})", op_, scope_); }

const Node::Attribute* Node::find(const char* name) const {
  for (const Attribute& attribute : attributes_)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

int64_t Node::integer(const char* name) const {
  const Attribute* attribute = find(name);
  if (!attribute || attribute->kind != TRANSOM_ATTRIBUTE_INT)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an integer attribute '{}'", name);
  return attribute->integer;
}

double Node::number(const char* name) const {
  const Attribute* attribute = find(name);
  if (attribute && attribute->kind == TRANSOM_ATTRIBUTE_FLOAT) return attribute->number;
  return static_cast<double>(integer(name));
}

Shape Node::integers(const char* name) const {
  const Attribute* attribute = find(name);
  if (!attribute || attribute->kind != TRANSOM_ATTRIBUTE_INTS)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an attribute '{}' that is a list of integers", name);
  return attribute->list;
}

}  // namespace transom::hpu
