// SPDX-License-Identifier: Apache-2.0
#include "reference/executable.h"

#include <chrono>
#include <mutex>

#include "base/error.h"
#include "reference/handles.h"
#include "transom/device_plugin.hpp"

using transom::fail;
using transom::Type;

namespace {

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
  for (size_t i = 0; i < graph.values_count; ++i) types_.push_back(transom::type_of(graph.values[i]));
  std::vector<bool> placed(types_.size(), false);
  for (size_t i = 0; i < graph.inputs_count; ++i) placed[inputs_.emplace_back(checked_value(graph.inputs[i]))] = true;
  for (size_t i = 0; i < graph.outputs_count; ++i)
    placed[outputs_.emplace_back(checked_value(graph.outputs[i]))] = true;
  for (size_t i = 0; i < types_.size(); ++i) {
    const int64_t offset = graph.values[i].arena_offset;
    offsets_.push_back(offset);
    if (placed[i]) continue;
    const size_t bytes = bytes_of(types_[i]);
    if (offset < 0 || bytes > arena_size_ || static_cast<size_t>(offset) > arena_size_ - bytes)
      fail("value {}: {} bytes at offset {} do not fit an arena of {}", i, bytes, offset, arena_size_);
  }
  for (const transom_node& node : transom::plugin::Nodes(graph)) {
    description_ += fmt::format("{} {}: float64 reference\n", steps_.size(), node.op);
    steps_.emplace_back(node, types_);
  }
}

size_t transom_executable::checked_value(int32_t value) const {
  if (value < 0 || static_cast<size_t>(value) >= types_.size())
    fail("value {} of {} does not exist", value, types_.size());
  return static_cast<size_t>(value);
}

void transom_executable::run(const transom_launch& launch) const {
  if (launch.inputs_count != inputs_.size() || launch.outputs_count != outputs_.size())
    fail("expected {} inputs and {} outputs, found {} and {}", inputs_.size(), outputs_.size(), launch.inputs_count,
         launch.outputs_count);
  std::byte* const arena = bound(launch.arena, arena_size_, "arena", 0);
  std::vector<std::byte*> places;
  for (const int64_t offset : offsets_) places.push_back(offset < 0 ? nullptr : arena + offset);
  for (size_t i = 0; i < inputs_.size(); ++i)
    places[inputs_[i]] = bound(launch.inputs[i], bytes_of(types_[inputs_[i]]), "input", i);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    places[outputs_[i]] = bound(launch.outputs[i], bytes_of(types_[outputs_[i]]), "output", i);
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
    const transom::PrimitiveNode& step = steps_[i];
    const uint64_t begin = profile ? nanoseconds() : 0;
    // Values that share memory are no matter here: all inputs are read before any output is written.
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (const size_t value : step.inputs()) from.push_back(places[value]);
    for (const size_t value : step.outputs()) to.push_back(places[value]);
    step.evaluate(from, to);
    if (profile) profile(profile_user, i, "float64 reference", begin, nanoseconds());
  }
}
