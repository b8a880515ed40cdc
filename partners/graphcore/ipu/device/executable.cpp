// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/executable.h"

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

#include <fmt/ranges.h>
#include "transom/plugin/node.h"

#include "ipu/device/clocks.h"
#include "ipu/lowering/lowering.h"
#include "ipu/lowering/placement.h"
#include "ipu/lowering/streaming_memory.h"

namespace {

using transom::backend::fail;

uint64_t nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// What Poplar throws, as failures of the interface.
template <typename Body>
void translated(Body&& body) {
  try {
    body();
  } catch (const poplar::graph_memory_allocation_error& error) {
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: {}", error.what());
  } catch (const poplar::poplar_error& error) {
    fail(TRANSOM_INTERNAL, "poplar: {}", error.what());
  }
}

// The largest matrix from which rows are gathered.
void find_table(const transom_graph& graph, transom::ipu::Lowering& lowering) {
  int64_t most = 0;
  for (const transom_node& c_node : transom::plugin::Nodes(graph)) {
    const transom::backend::Node node(graph, c_node);
    if (node.op() != "gather" || node.integer("axis") != 0) continue;
    const transom::backend::Type table = transom::backend::type_of(graph, c_node.inputs[0]);
    const bool real = table.dtype == TRANSOM_FLOAT16 || table.dtype == TRANSOM_FLOAT32;
    if (!real || table.shape.size() != 2 || table.count() <= most) continue;
    most = table.count();
    lowering.set_table(c_node.inputs[0], table);
  }
}

}  // namespace

transom_executable::transom_executable(transom_device* device, const transom_graph& graph,
                                       transom::ipu::Messages messages)
    : device_(device), messages_(std::move(messages)) {
  const transom::ipu::IpuConfig& config = transom::ipu::ipu_config();
  streamed_inputs_.resize(graph.inputs_count);
  streamed_outputs_.resize(graph.outputs_count);
  if (config.optimizer_state_offchip) {
    transom::ipu::StreamedValues streamed = transom::ipu::streamed_values(graph);
    streamed_inputs_ = std::move(streamed.inputs);
    streamed_outputs_ = std::move(streamed.outputs);
  }
  for (size_t i = 0; i < graph.inputs_count; ++i) inputs_.push_back(transom::backend::type_of(graph, graph.inputs[i]));
  for (size_t i = 0; i < graph.outputs_count; ++i)
    outputs_.push_back(transom::backend::type_of(graph, graph.outputs[i]));
  nodes_ = graph.nodes_count;
  rounds_stochastically_ = config.stochastic_rounding;
  const std::vector<bool> prunable = transom::ipu::prunable_weights(graph);
  for (size_t i = 0; i < prunable.size(); ++i)
    if (prunable[i] && !streamed_inputs_[i]) weights_[i] = {};
  if (!weights_.empty()) graph_ = std::make_unique<transom::ipu::KeptGraph>(graph);
  translated([&] { compile(graph); });
}

void transom_executable::compile(const transom_graph& graph) {
  const transom::ipu::IpuConfig& config = transom::ipu::ipu_config();
  const std::filesystem::path folder = transom::ipu::ExecutableCache::folder_of(config);
  if (folder.empty()) {
    engine_ = std::make_unique<poplar::Engine>(lowered(graph));
  } else {
    const transom::ipu::ExecutableCache cache(folder, messages_.warn);
    std::string key = transom::ipu::program_key(graph, device_->machine.getTarget(), config);
    for (const auto& [i, mask] : blocks_)
      if (!key.empty()) key += fmt::format("\nblocks of input {}: {}", i, fmt::join(mask.kept, ""));
    std::optional<poplar::Executable> executable = cache.find(key);
    kept_ = executable.has_value();
    if (kept_) ++device_->kept_programs;
    else cache.keep(key, executable.emplace(lowered(graph)));
    engine_ = std::make_unique<poplar::Engine>(std::move(*executable));
  }
  residents_.assign(inputs_.size(), {});
  ++device_->programs;
  device_->block_products += blocks_.size();
  transom::ipu::count_memory(*device_, *engine_);
  if (messages_.memory) messages_.memory(memory());
}

poplar::Executable transom_executable::lowered(const transom_graph& graph) {
  transom::ipu::Lowering lowering(device_->machine.getTarget());
  std::vector<poplar::program::Program> fetches;
  const transom::ipu::Placement placement = transom::ipu::place(graph, transom::ipu::ipu_config());
  for (size_t i = 0; i < graph.inputs_count; ++i) {
    lowering.choose_ipu(placement.inputs[i]);
    const auto blocks = blocks_.find(i);
    fetches.push_back(streamed_inputs_[i]       ? lowering.add_streamed_input(graph.inputs[i], inputs_[i], i)
                      : blocks != blocks_.end() ? lowering.add_blocks(graph.inputs[i], inputs_[i], blocks->second, i)
                                                : lowering.add_input(graph.inputs[i], inputs_[i], i));
  }
  if (rounds_stochastically_) lowering.round_stochastically();
  std::map<int32_t, size_t> streamed_outputs;  // by value
  for (size_t i = 0; i < graph.outputs_count; ++i)
    if (streamed_outputs_[i]) streamed_outputs.emplace(graph.outputs[i], i);
  if (transom::ipu::ipu_config().embedding_serialization_factor > 1) find_table(graph, lowering);
  size_t at = 0;
  for (const transom_node& c_node : transom::plugin::Nodes(graph)) {
    const transom::backend::Node node(graph, c_node);
    lowering.choose_ipu(placement.nodes[at++]);
    try {
      lowering.lower(node, c_node);
    } catch (const std::out_of_range&) {
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected other inputs or attributes", node.place());
    }
    for (size_t i = 0; i < c_node.outputs_count; ++i)
      if (const auto found = streamed_outputs.find(c_node.outputs[i]); found != streamed_outputs.end())
        lowering.add_streamed_output(found->first, outputs_[found->second], found->second);
  }
  for (size_t i = 0; i < graph.outputs_count; ++i)
    if (!streamed_outputs_[i]) lowering.add_output(graph.outputs[i], outputs_[i], i);
  // Program 0 computes; program 1 + i fetches input i.
  std::vector<poplar::program::Program> programs{lowering.program()};
  programs.insert(programs.end(), fetches.begin(), fetches.end());
  return poplar::compileGraph(lowering.whole_graph(), programs);
}

transom_executable::~transom_executable() {
  const std::lock_guard lock(device_->running);
  if (device_->loaded == this) device_->loaded = nullptr;
}

const char* transom_executable::describe() {
  if (description_.empty()) description_ = transom::ipu::describe(*engine_);
  return description_.c_str();
}

std::string transom_executable::memory() const {
  const std::string blocks = blocks_.empty() ? "" : fmt::format(", {} weights as their blocks", blocks_.size());
  return fmt::format("a program of {} nodes{}{}: {}", nodes_, blocks, kept_ ? ", compiled before" : "",
                     transom::ipu::memory_text(*engine_));
}

void transom_executable::unload(transom_device& device) {
  if (device.loaded) transom::ipu::unload(*device.loaded->engine_);
  device.loaded = nullptr;
}

// The program is compiled again where other weights are to be had as their blocks than it has.
void transom_executable::choose_blocks(const transom_launch& launch) {
  std::map<size_t, transom::ipu::BlockMask> chosen;
  for (auto& [i, weight] : weights_) {
    const transom_binding& binding = launch.inputs[i];
    const std::byte* place = transom_buffer::at(binding, inputs_[i].bytes());
    if (const uint64_t stamp = binding.buffer->stamp(); weight.stamp != stamp || weight.offset != binding.offset)
      weight = {stamp, binding.offset, transom::ipu::blocks_of(inputs_[i], place)};
    if (weight.mask) chosen.emplace(i, *weight.mask);
  }
  if (chosen == blocks_) return;
  if (device_->loaded == this) unload(*device_);
  std::swap(blocks_, chosen);
  try {
    compile(graph_->view());
  } catch (...) {
    std::swap(blocks_, chosen);  // as the program has them still
    throw;
  }
}

// Inputs come where the tiles do not hold them from the run before: weights stay.
void transom_executable::fetch(const transom_launch& launch) {
  if (device_->loaded != this) {
    unload(*device_);
    engine_->load(device_->machine);
    residents_.assign(inputs_.size(), {});
    device_->loaded = this;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].count() == 0) continue;
    const transom_binding& binding = launch.inputs[i];
    std::byte* place = transom_buffer::at(binding, inputs_[i].bytes());
    const Resident held{binding.buffer->stamp(), binding.offset};
    if (residents_[i].stamp == held.stamp && residents_[i].offset == held.offset) continue;
    residents_[i] = {};  // a stream that fails leaves something else
    const std::string handle = fmt::format("input{}", i);
    if (streamed_inputs_[i]) {
      engine_->copyToRemoteBuffer(place, handle, 0);
    } else if (const auto blocks = blocks_.find(i); blocks != blocks_.end()) {
      std::vector<std::byte> packed = transom::ipu::packed_blocks(inputs_[i], blocks->second, place);
      if (packed.empty()) continue;
      engine_->connectStream(handle, packed.data(), packed.data() + packed.size());
      engine_->run(static_cast<unsigned>(1 + i));
      device_->fetched += packed.size();
    } else {
      engine_->connectStream(handle, place, place + inputs_[i].bytes());
      engine_->run(static_cast<unsigned>(1 + i));
      device_->fetched += inputs_[i].bytes();
    }
    residents_[i] = held;
  }
}

void transom_executable::run(const transom_launch& launch) {
  if (launch.inputs_count != inputs_.size() || launch.outputs_count != outputs_.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} inputs and {} outputs, found {} and {}", inputs_.size(),
         outputs_.size(), launch.inputs_count, launch.outputs_count);
  const auto profile = device_->profile();
  const uint64_t begin = nanoseconds();
  {
    const std::lock_guard lock(device_->running);
    translated([&] {
      if (!weights_.empty()) choose_blocks(launch);
      fetch(launch);
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i].count() == 0) continue;
        std::byte* place = transom_buffer::at(launch.outputs[i], outputs_[i].bytes());
        if (!streamed_outputs_[i])
          engine_->connectStream(fmt::format("output{}", i), place, place + outputs_[i].bytes());
        launch.outputs[i].buffer->renew();
      }
      // Another noise in each run, the same ones in a process that runs the same programs.
      std::array<uint32_t, 2> seed{transom::ipu::ipu_config().seed, device_->rounded_runs};
      if (rounds_stochastically_) {
        ++device_->rounded_runs;
        engine_->connectStream(transom::ipu::kRoundingSeed, seed.data(), seed.data() + seed.size());
      }
      engine_->run(0);
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (streamed_inputs_[i]) device_->loaded_remote += inputs_[i].bytes();
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i].count() == 0) continue;
        if (streamed_outputs_[i]) {
          std::byte* place = transom_buffer::at(launch.outputs[i], outputs_[i].bytes());
          engine_->copyFromRemoteBuffer(fmt::format("output{}", i), place, 0);
          device_->stored_remote += outputs_[i].bytes();
        }
        launch.outputs[i].buffer->renew();
      }
    });
    transom::ipu::count_cycles(*device_, *engine_);
    ++device_->runs;
  }
  if (profile.callback) {
    const uint64_t end = nanoseconds();
    for (size_t node = 0; node < nodes_; ++node)  // a program is one entry: its first node has all of the time
      profile.callback(profile.user, node, node ? "in the program" : "poplar program", node ? end : begin, end);
  }
}
