// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/plugin_nodes.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "graph/ops/array_bytes.h"

namespace transom {
namespace {

Attributes attributes_of_plugin(const transom_node& node) {
  Attributes attributes;
  for (size_t i = 0; i < node.attributes_count; ++i) {
    const transom_attribute& attribute = node.attributes[i];
    switch (attribute.kind) {
      case TRANSOM_ATTRIBUTE_INT:
        attributes.set(attribute.name, attribute.int_value);
        break;
      case TRANSOM_ATTRIBUTE_FLOAT:
        attributes.set(attribute.name, attribute.float_value);
        break;
      case TRANSOM_ATTRIBUTE_STRING:
        attributes.set(attribute.name, std::string(attribute.string_value));
        break;
      case TRANSOM_ATTRIBUTE_INTS:
        attributes.set(attribute.name, std::vector<int64_t>(attribute.ints, attribute.ints + attribute.ints_count));
        break;
      default:
        fail("{}: attribute '{}' has the unknown kind {}", node.op, attribute.name, attribute.kind);
    }
  }
  return attributes;
}

std::vector<size_t> indices_of_plugin(const int32_t* indices, size_t count, size_t values) {
  std::vector<size_t> result;
  for (size_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= values)
      fail("value {} of {} does not exist", indices[i], values);
    result.push_back(static_cast<size_t>(indices[i]));
  }
  return result;
}

}  // namespace

Type type_of(const transom_value& value) {
  if (value.dtype < TRANSOM_BOOL || value.dtype > TRANSOM_FLOAT64)
    fail("a value has the unknown dtype {}", value.dtype);
  return {static_cast<DType>(value.dtype), Shape(value.shape, value.shape + value.rank)};
}

PrimitiveNode::PrimitiveNode(const transom_node& node, std::span<const Type> values)
    : operation_(&find_operation(node.op)),
      attributes_(attributes_of_plugin(node)),
      inputs_(indices_of_plugin(node.inputs, node.inputs_count, values.size())),
      outputs_(indices_of_plugin(node.outputs, node.outputs_count, values.size())),
      scope_(node.scope ? node.scope : "") {
  if (!operation_->evaluate) fail("{}: expected a primitive, found a composite", node.op);
  for (const size_t value : inputs_) input_types_.push_back(values[value]);
  for (const size_t value : outputs_) output_types_.push_back(values[value]);
  if (operation_->infer({*operation_, input_types_, attributes_}) != output_types_)
    fail("{}: the outputs have other types than its rule gives", node.op);
}

void PrimitiveNode::evaluate(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const {
  std::vector<Array> given, made;
  for (size_t i = 0; i < inputs.size(); ++i) given.push_back(load_array(inputs[i], input_types_[i]));
  for (const Type& type : output_types_) made.emplace_back(type);
  try {
    operation_->evaluate(given, attributes_, made);
  } catch (const Error& error) {
    if (scope_.empty()) throw;
    fail("{}: {}", scope_, error.what());
  }
  for (size_t i = 0; i < outputs.size(); ++i) store_array(made[i], outputs[i]);
}

int evaluates_on_host(const char* op) {
  const std::span<const Operation* const> all = all_operations();
  const auto found = std::lower_bound(all.begin(), all.end(), std::string_view(op),
                                      [](const Operation* one, std::string_view name) { return one->name < name; });
  return found != all.end() && (*found)->name == op && (*found)->evaluate;
}

transom_status evaluate_on_host(const transom_node* node, const transom_value* values, size_t values_count,
                                const void* const* inputs, void* const* outputs, transom_error* error) {
  transom_status status = TRANSOM_INTERNAL;
  std::string text;
  try {
    if (!evaluates_on_host(node->op)) {
      status = TRANSOM_UNSUPPORTED;
      fail("{}: expected a primitive operation", node->op);
    }
    status = TRANSOM_INVALID_ARGUMENT;
    std::vector<Type> types;
    for (size_t i = 0; i < values_count; ++i) types.push_back(type_of(values[i]));
    const PrimitiveNode primitive(*node, types);
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (size_t i = 0; i < node->inputs_count; ++i) from.push_back(static_cast<const std::byte*>(inputs[i]));
    for (size_t i = 0; i < node->outputs_count; ++i) to.push_back(static_cast<std::byte*>(outputs[i]));
    primitive.evaluate(from, to);
    return TRANSOM_OK;
  } catch (const std::bad_alloc&) {
    status = TRANSOM_OUT_OF_MEMORY;
    text = "out of host memory";
  } catch (const std::exception& failure) {
    text = failure.what();
  }
  std::snprintf(error->text, sizeof error->text, "%s", text.c_str());
  return status;
}

}  // namespace transom
