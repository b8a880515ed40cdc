// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/executable.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "gpu/lowering/lowering.h"

namespace {

using transom::backend::fail;
using transom::gpu::Operand;

// A line for each node: what is launched for it.
std::string described(const std::vector<transom::gpu::PlannedLaunch>& launches,
                      const std::vector<std::string>& operations) {
  std::vector<std::string> lines(operations.size());
  for (const transom::gpu::PlannedLaunch& launch : launches) {
    lines[launch.node] += (lines[launch.node].empty() ? " " : ", ") + launch.label;
    for (const size_t node : launch.also) lines[node] = fmt::format(" with node {}", launch.node);
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i)
    text += fmt::format("{} {}:{}\n", i, operations[i], lines[i].empty() ? " nothing to do" : lines[i]);
  return text;
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

// The places of the graph's values. Returns which are inputs or outputs.
std::vector<bool> transom_executable::place_values(const transom_graph& graph) {
  for (size_t i = 0; i < graph.values_count; ++i) {
    const transom::backend::Type type = transom::backend::type_of(graph, static_cast<int32_t>(i));
    if (type.dtype == TRANSOM_FLOAT64 && !device_->context->facts().float64)
      fail(TRANSOM_UNSUPPORTED, "the device has no numbers of 64 bits");
    values_.push_back({type.bytes(), graph.values[i].arena_offset});
  }
  std::vector<bool> bound(values_.size(), false);
  const auto add = [&](int32_t value, std::vector<size_t>& list) {
    transom::backend::type_of(graph, value);  // refuses one that is none
    list.push_back(static_cast<size_t>(value));
    bound[list.back()] = true;
  };
  for (size_t i = 0; i < graph.inputs_count; ++i) add(graph.inputs[i], inputs_);
  for (size_t i = 0; i < graph.outputs_count; ++i) add(graph.outputs[i], outputs_);
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    if (bound[i] || value.bytes == 0) continue;
    if (value.arena_offset < 0 || value.bytes > arena_bytes_ ||
        static_cast<size_t>(value.arena_offset) > arena_bytes_ - value.bytes)
      fail(TRANSOM_INVALID_ARGUMENT, "value {}: {} bytes at offset {} do not fit an arena of {}", i, value.bytes,
           value.arena_offset, arena_bytes_);
  }
  return bound;
}

// Plans the launches of the nodes. Returns the names of their operations.
std::vector<std::string> transom_executable::lower(const transom_graph& graph, const std::vector<bool>& bound,
                                                   transom::gpu::Emitter& emitter) {
  std::vector<std::string> operations;
  std::vector<const transom_node*> nodes;
  std::vector<size_t> readers(values_.size(), 0);
  for (const transom_node& node : transom::plugin::Nodes(graph)) {
    nodes.push_back(&node);
    for (size_t i = 0; i < node.inputs_count; ++i) {
      transom::backend::type_of(graph, node.inputs[i]);  // refuses one that is none
      ++readers[static_cast<size_t>(node.inputs[i])];
    }
    for (size_t i = 0; i < node.outputs_count; ++i) transom::backend::type_of(graph, node.outputs[i]);
  }
  const auto operands = [](const int32_t* values, size_t count) {
    std::vector<Operand> all;
    for (size_t i = 0; i < count; ++i) all.push_back({Operand::kValue, static_cast<size_t>(values[i]), 0});
    return all;
  };
  std::optional<transom::gpu::Following> following;
  for (const transom_node* each : nodes) {
    const transom_node& c_node = *each;
    const transom::backend::Node node(graph, c_node);
    if (following && following->taken) {  // the launch before this node computes it
      following.reset();
      emitter.launches.back().also.push_back(nodes_);
      operations.push_back(node.op());
      ++nodes_;
      continue;
    }
    transom::gpu::Work work{node, operands(c_node.inputs, c_node.inputs_count),
                            operands(c_node.outputs, c_node.outputs_count), c_node.region};
    following.reset();
    if (nodes_ + 1 < nodes.size() && may_join(c_node, *nodes[nodes_ + 1], readers, bound)) {
      const transom_node& next = *nodes[nodes_ + 1];
      following = {next.region, operands(next.inputs, next.inputs_count), operands(next.outputs, next.outputs_count),
                   static_cast<size_t>(std::find(next.inputs, next.inputs + next.inputs_count, c_node.outputs[0]) -
                                       next.inputs)};
      work.following = &*following;
    }
    emitter.begin_node(nodes_);
    try {
      transom::gpu::lower_node(emitter, work);
    } catch (const std::out_of_range&) {
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected other inputs or attributes", node.place());
    }
    operations.push_back(node.op());
    ++nodes_;
  }
  return operations;
}

transom_executable::transom_executable(transom_device* device, const transom_graph& graph)
    : device_(device), arena_bytes_(graph.arena_size) {
  const std::vector<bool> bound = place_values(graph);
  transom::gpu::Emitter emitter(device->context->facts(), device->context->dialect(), device->products.get(),
                                device->convolutions.get(), device->attentions.get());
  const std::vector<std::string> operations = lower(graph, bound, emitter);
  merge_launches(emitter.launches, values_, device->context->facts(), device->context->dialect());
  scratch_bytes_ = emitter.scratch_bytes;
  std::vector<const std::string*> texts;
  for (const transom::gpu::PlannedLaunch& launch : emitter.launches)
    if (!launch.by_library()) texts.push_back(&launch.text);
  device->kernels.prepare(texts);
  description_ = described(emitter.launches, operations);
  for (transom::gpu::PlannedLaunch& launch : emitter.launches)
    steps_.push_back({launch.by_library() ? nullptr : &device->kernels.get(launch.text), launch.groups,
                      std::move(launch.operands), std::move(launch.numbers), launch.node, std::move(launch.label),
                      launch.product, std::move(launch.otherwise), std::move(launch.bound), launch.convolution,
                      std::move(launch.attention)});
}

// Whether the node after one may be computed as the results of this are made. It is the only reader of the first one, a
// fusion that writes to the arena, and to no place from which this node still reads: the plan gives memory away once
// the last of its readers ran, so by the order of nodes alone.
bool transom_executable::may_join(const transom_node& node, const transom_node& next,
                                  const std::vector<size_t>& readers, const std::vector<bool>& bound) const {
  if (node.outputs_count == 0 || std::string_view(next.op) != "fusion" || !next.region) return false;
  const auto made = static_cast<size_t>(node.outputs[0]);
  if (bound[made] || readers[made] != 1 ||
      std::count(next.inputs, next.inputs + next.inputs_count, node.outputs[0]) != 1)
    return false;
  for (size_t i = 0; i < next.outputs_count; ++i) {
    const auto to = static_cast<size_t>(next.outputs[i]);
    if (bound[to] || values_[to].arena_offset < 0) return false;
    const auto begin = static_cast<size_t>(values_[to].arena_offset);
    for (size_t k = 0; k < node.inputs_count; ++k) {
      const auto from = static_cast<size_t>(node.inputs[k]);
      if (bound[from]) continue;
      const auto start = static_cast<size_t>(values_[from].arena_offset);
      if (start < begin + values_[to].bytes && begin < start + values_[from].bytes) return false;
    }
  }
  return true;
}

std::vector<std::byte*> transom_executable::places(const transom_launch& launch) const {
  if (launch.inputs_count != inputs_.size() || launch.outputs_count != outputs_.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} inputs and {} outputs, found {} and {}", inputs_.size(),
         outputs_.size(), launch.inputs_count, launch.outputs_count);
  std::byte* const arena = transom_buffer::at(launch.arena, arena_bytes_);
  std::vector<std::byte*> places(values_.size(), nullptr);
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].arena_offset >= 0 && values_[i].bytes > 0) places[i] = arena + values_[i].arena_offset;
  for (size_t i = 0; i < inputs_.size(); ++i)
    places[inputs_[i]] = transom_buffer::at(launch.inputs[i], values_[inputs_[i]].bytes);
  for (size_t i = 0; i < outputs_.size(); ++i)
    places[outputs_[i]] = transom_buffer::at(launch.outputs[i], values_[outputs_[i]].bytes);
  for (std::byte*& place : places)
    if (!place) place = static_cast<std::byte*>(device_->nothing);
  return places;
}

std::vector<const void*> transom_executable::Addresses::of(const std::vector<Operand>& operands) const {
  std::vector<const void*> addresses;
  for (const Operand& operand : operands)
    addresses.push_back((operand.kind == Operand::kValue ? values[operand.index] : scratch) + operand.offset);
  return addresses;
}

void transom_executable::issue(transom_stream& stream, const Step& step, const Addresses& where) const {
  const auto launch = [&](const transom::gpu::Kernel& kernel, const auto& one) {
    const std::vector<const void*> addresses = where.of(one.operands);
    stream.queue().launch(kernel, one.groups,
                          {addresses.data(), addresses.size(), one.numbers.data(), one.numbers.size()});
    stream.issued();
    ++device_->launches;
  };
  const auto launch_others = [&] {
    for (const transom::gpu::PlannedLaunch& other : step.otherwise) launch(device_->kernels.get(other.text), other);
  };
  if (!step.bound.empty() && parts_collide(step.bound, where.values, values_)) return launch_others();
  if (step.kernel) return launch(*step.kernel, step);
  const std::vector<const void*> at = where.of(step.operands);
  const auto writable = [&](size_t i) { return i < at.size() ? const_cast<void*>(at[i]) : nullptr; };
  if (step.attention) {
    for (const void* operand : at)
      if (reinterpret_cast<uintptr_t>(operand) % 16 != 0) return launch_others();
    if (!device_->attentions->run(stream.queue(), *step.attention->plan, step.attention->scale, at))
      return launch_others();
    ++device_->launches;
    stream.issued();
    return;
  }
  if (step.convolution) {
    for (size_t i = 0; i < 3; ++i)
      if (reinterpret_cast<uintptr_t>(at[i]) % 16 != 0) return launch_others();
    device_->convolutions->run(stream.queue(), *step.convolution, {writable(0), writable(1), writable(2), writable(3)});
    ++device_->launches;
    stream.issued();
    return;
  }
  const transom::gpu::ProductAddresses addresses{at[0], at[1], writable(4), writable(2), writable(3)};
  transom::gpu::ProductShape shape = *step.product;
  shape.alignment = addresses.alignment();
  if (shape.alignment != step.product->alignment && !device_->products->takes(shape)) return launch_others();
  device_->products->multiply(stream.queue(), shape, addresses);
  ++device_->launches;
  stream.issued();
}

void transom_executable::run(const transom_launch& launch) const {
  transom_stream& stream = *launch.stream;
  const std::vector<std::byte*> where = places(launch);
  std::byte* const scratch = scratch_bytes_ ? stream.scratch(scratch_bytes_) : nullptr;
  const auto profile = device_->profile();
  const Addresses addresses{where, scratch};
  if (!profile.callback) {
    for (const Step& step : steps_) issue(stream, step, addresses);
    stream.queue().flush();
    return;
  }
  stream.synchronize();
  size_t next = 0;
  for (size_t node = 0; node < nodes_; ++node) {
    const uint64_t begin = nanoseconds();
    const char* label = "nothing";
    for (; next < steps_.size() && steps_[next].node == node; ++next) {
      label = steps_[next].label.c_str();
      issue(stream, steps_[next], addresses);
    }
    stream.synchronize();
    profile.callback(profile.user, node, label, begin, nanoseconds());
  }
}
