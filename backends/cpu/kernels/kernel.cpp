// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/kernel.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace transom::cpu {
namespace {

std::vector<Type> types_of(const transom_graph& graph, std::span<const int32_t> indices) {
  std::vector<Type> types;
  for (int32_t index : indices) {
    if (index < 0 || static_cast<size_t>(index) >= graph.values_count)
      fail(TRANSOM_INVALID_ARGUMENT, "expected a value below {}, found {}", graph.values_count, index);
    const transom_value& value = graph.values[index];
    Type type{static_cast<transom_dtype>(value.dtype), Shape(value.shape, value.shape + value.rank)};
    element_size(type.dtype);  // refuses an unknown one
    for (int64_t extent : type.shape)
      if (extent < 0) fail(TRANSOM_INVALID_ARGUMENT, "expected extents of at least 0, found {}", to_string(type));
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace

Node::Node(const transom_graph& graph, const transom_node& node)
    : graph_(graph),
      node_(node),
      inputs_(types_of(graph, {node.inputs, node.inputs_count})),
      outputs_(types_of(graph, {node.outputs, node.outputs_count})) {}

const Type& Node::input(size_t i) const {
  if (i >= inputs_.size()) fail(TRANSOM_INVALID_ARGUMENT, "expected an input {}, found {} inputs", i, inputs_.size());
  return inputs_[i];
}

const Type& Node::output(size_t i) const {
  if (i >= outputs_.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected an output {}, found {} outputs", i, outputs_.size());
  return outputs_[i];
}

bool Node::is_frozen(int32_t value) const {
  const bool flagged = (graph_.values[value].flags & TRANSOM_VALUE_FROZEN) != 0;
  return flagged &&
         std::find(graph_.inputs, graph_.inputs + graph_.inputs_count, value) != graph_.inputs + graph_.inputs_count;
}

bool Node::frozen(size_t input) const { return is_frozen(node_.inputs[input]); }

std::optional<Node::Origin> Node::frozen_origin(size_t input) const {
  const auto origin = [&](int32_t value) {
    return Origin{value, static_cast<transom_dtype>(graph_.values[value].dtype)};
  };
  const int32_t value = node_.inputs[input];
  if (is_frozen(value)) return origin(value);
  const plugin::Nodes nodes(graph_);
  const auto maker = std::find_if(nodes.begin(), nodes.end(), [&](const transom_node& node) {
    return node.outputs_count == 1 && node.outputs[0] == value;
  });
  if (maker == nodes.end() || std::strcmp(maker->op, "cast") != 0 || maker->inputs_count != 1) return std::nullopt;
  const int32_t source = maker->inputs[0];
  if (source < 0 || static_cast<size_t>(source) >= graph_.values_count || !is_frozen(source)) return std::nullopt;
  const auto narrow = [](transom_dtype dtype) { return dtype == TRANSOM_FLOAT16 || dtype == TRANSOM_BFLOAT16; };
  const Origin found = origin(source);
  const bool reads = (narrow(found.dtype) || found.dtype == TRANSOM_FLOAT32) &&
                     (narrow(inputs_[input].dtype) || inputs_[input].dtype == TRANSOM_FLOAT32);
  return reads ? std::optional(found) : std::nullopt;
}

const transom_attribute* Node::find(const char* name) const {
  for (size_t i = 0; i < node_.attributes_count; ++i)
    if (std::strcmp(node_.attributes[i].name, name) == 0) return &node_.attributes[i];
  return nullptr;
}

int64_t Node::integer(const char* name) const {
  const transom_attribute* attribute = find(name);
  if (!attribute || attribute->kind != TRANSOM_ATTRIBUTE_INT)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an integer attribute '{}'", name);
  return attribute->int_value;
}

int64_t Node::integer(const char* name, int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }

double Node::number(const char* name) const {
  const transom_attribute* attribute = find(name);
  if (attribute && attribute->kind == TRANSOM_ATTRIBUTE_FLOAT) return attribute->float_value;
  return static_cast<double>(integer(name));
}

Shape Node::integers(const char* name) const {
  const transom_attribute* attribute = find(name);
  if (!attribute || attribute->kind != TRANSOM_ATTRIBUTE_INTS)
    fail(TRANSOM_INVALID_ARGUMENT, "expected an attribute '{}' that is a list of integers", name);
  return Shape(attribute->ints, attribute->ints + attribute->ints_count);
}

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable made;
    add_elementwise_kernels(made);
    add_movement_kernels(made);
    add_generator_kernels(made);
    add_indexing_kernels(made);
    add_reduction_kernels(made);
    add_ordering_kernels(made);
    add_row_fusion_kernels(made);
    add_softmax_kernels(made);
    add_layer_norm_kernels(made);
    add_product_kernels(made);
    add_attention_kernels(made);
    add_attention_gradient_kernels(made);
    add_quantized_kernels(made);
    add_convolution_kernels(made);
    add_pooling_kernels(made);
    return made;
  }();
  return table;
}

}  // namespace transom::cpu
