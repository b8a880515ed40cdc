// SPDX-License-Identifier: Apache-2.0
#include "reference/executable.h"

#include <chrono>
#include <mutex>

#include "base/error.h"
#include "ops/array_bytes.h"
#include "reference/handles.h"
#include "transom/device_plugin.hpp"

using transom::Array;
using transom::Attributes;
using transom::DType;
using transom::fail;
using transom::Shape;
using transom::Type;

namespace {

Attributes read_attributes(const transom_node& node) {
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

Type read_type(const transom_value& value) {
  if (value.dtype < TRANSOM_BOOL || value.dtype > TRANSOM_FLOAT64)
    fail("a value has the unknown dtype {}", value.dtype);
  return {static_cast<DType>(value.dtype), Shape(value.shape, value.shape + value.rank)};
}

size_t bytes_of(const Type& type) {
  return static_cast<size_t>(transom::elements(type.shape)) * transom::size_of(type.dtype);
}

std::byte* bound(const transom_binding& binding, size_t bytes, std::string_view what, size_t index) {
  if (bytes == 0) return nullptr;
  if (!binding.buffer) fail("{} {}: expected a buffer of {} bytes, found none", what, index, bytes);
  if (binding.offset > binding.buffer->bytes || bytes > binding.buffer->bytes - binding.offset)
    fail("{} {}: {} bytes at offset {} do not fit a buffer of {}", what, index, bytes, binding.offset,
         binding.buffer->bytes);
  return binding.buffer->data + binding.offset;
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

transom_executable::transom_executable(const transom_graph& graph) : arena_size_(graph.arena_size) {
  for (size_t i = 0; i < graph.values_count; ++i)
    values_.push_back({read_type(graph.values[i]), graph.values[i].arena_offset});
  std::vector<bool> placed(values_.size(), false);
  for (size_t i = 0; i < graph.inputs_count; ++i) placed[inputs_.emplace_back(checked_value(graph.inputs[i]))] = true;
  for (size_t i = 0; i < graph.outputs_count; ++i)
    placed[outputs_.emplace_back(checked_value(graph.outputs[i]))] = true;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (placed[i]) continue;
    const int64_t offset = values_[i].arena_offset;
    const size_t bytes = bytes_of(values_[i].type);
    if (offset < 0 || bytes > arena_size_ || static_cast<size_t>(offset) > arena_size_ - bytes)
      fail("value {}: {} bytes at offset {} do not fit an arena of {}", i, bytes, offset, arena_size_);
  }
  for (const transom_node& node : transom::plugin::Nodes(graph)) {
    description_ += fmt::format("{} {}: float64 reference\n", steps_.size(), node.op);
    steps_.push_back(read_step(node));
  }
}

size_t transom_executable::checked_value(int32_t value) const {
  if (value < 0 || static_cast<size_t>(value) >= values_.size())
    fail("value {} of {} does not exist", value, values_.size());
  return static_cast<size_t>(value);
}

transom_executable::Step transom_executable::read_step(const transom_node& node) const {
  Step step{&transom::find_operation(node.op), read_attributes(node), {}, {}, node.scope ? node.scope : ""};
  if (!step.operation->evaluate) fail("{}: the reference device runs primitives only", node.op);
  std::vector<Type> inputs, outputs;
  for (size_t i = 0; i < node.inputs_count; ++i)
    inputs.push_back(values_[step.inputs.emplace_back(checked_value(node.inputs[i]))].type);
  for (size_t i = 0; i < node.outputs_count; ++i)
    outputs.push_back(values_[step.outputs.emplace_back(checked_value(node.outputs[i]))].type);
  if (step.operation->infer({*step.operation, inputs, step.attributes}) != outputs)
    fail("{}: the outputs have other types than its rule gives", node.op);
  return step;
}

void transom_executable::run(const transom_launch& launch) const {
  if (launch.inputs_count != inputs_.size() || launch.outputs_count != outputs_.size())
    fail("expected {} inputs and {} outputs, found {} and {}", inputs_.size(), outputs_.size(), launch.inputs_count,
         launch.outputs_count);
  std::byte* const arena = bound(launch.arena, arena_size_, "arena", 0);
  std::vector<std::byte*> places;
  for (const Value& value : values_) places.push_back(value.arena_offset < 0 ? nullptr : arena + value.arena_offset);
  for (size_t i = 0; i < inputs_.size(); ++i)
    places[inputs_[i]] = bound(launch.inputs[i], bytes_of(values_[inputs_[i]].type), "input", i);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    places[outputs_[i]] = bound(launch.outputs[i], bytes_of(values_[outputs_[i]].type), "output", i);
    if (launch.outputs[i].buffer && launch.outputs[i].buffer->imported)
      fail("output {} is bound to memory that is only read", i);
  }

  transom_device& device = *launch.stream->device;
  transom_profile_callback profile;
  void* profile_user;
  {
    const std::lock_guard lock(device.mutex);
    profile = device.profile, profile_user = device.profile_user;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const uint64_t begin = profile ? nanoseconds() : 0;
    // Values that share memory are no matter here: all inputs are read before any output is written.
    std::vector<Array> inputs, outputs;
    for (const size_t value : step.inputs) inputs.push_back(transom::load_array(places[value], values_[value].type));
    for (const size_t value : step.outputs) outputs.emplace_back(values_[value].type);
    try {
      step.operation->evaluate(inputs, step.attributes, outputs);
    } catch (const transom::Error& error) {
      if (step.scope.empty()) throw;
      fail("{}: {}", step.scope, error.what());
    }
    for (size_t k = 0; k < outputs.size(); ++k) transom::store_array(outputs[k], places[step.outputs[k]]);
    if (profile) profile(profile_user, i, "float64 reference", begin, nanoseconds());
  }
}
