// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/executable.h"

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>

#include "cpu/device/device.h"
#include "cpu/tiles/tile_program.h"

using namespace transom::cpu;

namespace {

constexpr size_t kNowhere = SIZE_MAX;

// The graph must be whole before anything follows its indices.
void check(const transom_graph& graph) {
  const auto check_index = [&](int32_t index, const char* what) {
    if (index < 0 || static_cast<size_t>(index) >= graph.values_count)
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a value below {}, found {}", what, graph.values_count, index);
  };
  for (size_t i = 0; i < graph.inputs_count; ++i) check_index(graph.inputs[i], "inputs of the graph");
  for (size_t i = 0; i < graph.outputs_count; ++i) check_index(graph.outputs[i], "outputs of the graph");
}

std::byte* address(const transom_binding& binding, size_t bytes, const char* what, size_t index) {
  if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "{} {}: expected a buffer, found none", what, index);
  if (binding.offset > binding.buffer->bytes || bytes > binding.buffer->bytes - binding.offset)
    fail(TRANSOM_INVALID_ARGUMENT, "{} {}: expected {} bytes at offset {}, found a buffer of {} bytes", what, index,
         bytes, binding.offset, binding.buffer->bytes);
  return binding.buffer->data + binding.offset;
}

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

size_t scratch_of(const Kernel& kernel) { return (kernel.scratch_bytes + 63) / 64 * 64; }

}  // namespace

transom_executable::transom_executable(transom_device* device, const transom_graph& graph)
    : device_(device), inputs_(graph.inputs_count), outputs_(graph.outputs_count), arena_size_(graph.arena_size) {
  check(graph);
  places_ = places_for(graph);
  std::vector<const transom_node*> nodes;
  for (const transom_node& source : transom::plugin::Nodes(graph)) {
    const size_t i = nodes.size();
    nodes.push_back(&source);
    const std::string where = transom::backend::place_of(source.op, source.scope ? source.scope : "");
    try {
      const Node node(graph, source);
      const auto entry = kernel_table().find(node.op());
      if (entry == kernel_table().end()) fail(TRANSOM_UNSUPPORTED, "the cpu device has no such operation");
      Step step{i, entry->second.make(node), {}, source.inputs_count, where};
      step.values.insert(step.values.end(), source.inputs, source.inputs + source.inputs_count);
      step.values.insert(step.values.end(), source.outputs, source.outputs + source.outputs_count);
      for (size_t value : step.values)
        if (places_[value].index == kNowhere)
          fail(TRANSOM_INVALID_ARGUMENT, "value {} is no input or output and has no place in the arena", value);
      for (const auto& [input, value] : step.kernel.instead) step.values[input] = static_cast<size_t>(value);
      scratch_bytes_ = std::max(scratch_bytes_, step.kernel.scratch_bytes);
      steps_.push_back(std::move(step));
    } catch (const Failure& failure) {
      fail(failure.status(), "node {}, {}: {}", i, where, failure.what());
    }
  }
  drop_unread_casts(graph, nodes);
  fuse_epilogues();
  for (const Step& step : steps_) describe_step(step, Node(graph, *nodes[step.node]));
}

// Casts of weights that all their readers take from before the cast.
void transom_executable::drop_unread_casts(const transom_graph& graph, const std::vector<const transom_node*>& nodes) {
  std::vector<bool> read(places_.size());
  for (const Step& step : steps_)
    for (size_t i = 0; i < step.inputs; ++i) read[step.values[i]] = true;
  for (size_t i = 0; i < outputs_; ++i) read[static_cast<size_t>(graph.outputs[i])] = true;
  std::erase_if(steps_, [&](const Step& step) {
    return std::strcmp(nodes[step.node]->op, "cast") == 0 && !read[step.values[step.inputs]];
  });
}

std::vector<transom_executable::Place> transom_executable::places_for(const transom_graph& graph) const {
  std::vector<Place> places;
  for (size_t i = 0; i < graph.values_count; ++i) {
    const transom_value& value = graph.values[i];
    size_t bytes = element_size(static_cast<transom_dtype>(value.dtype));
    for (int32_t axis = 0; axis < value.rank; ++axis) bytes *= static_cast<size_t>(value.shape[axis]);
    const bool placed = value.arena_offset >= 0;
    const size_t offset = static_cast<size_t>(value.arena_offset);
    if (placed && (offset > arena_size_ || bytes > arena_size_ - offset))
      fail(TRANSOM_INVALID_ARGUMENT, "value {}: expected a place inside the arena of {} bytes, found {} bytes at {}", i,
           arena_size_, bytes, offset);
    places.push_back({Place::kArena, placed ? offset : kNowhere, bytes, (value.flags & TRANSOM_VALUE_FROZEN) != 0});
  }
  const auto bind = [&](int32_t value, auto kind, size_t index) {
    places[static_cast<size_t>(value)].kind = kind;
    places[static_cast<size_t>(value)].index = index;
  };
  for (size_t i = 0; i < inputs_; ++i) bind(graph.inputs[i], Place::kInput, i);
  for (size_t i = 0; i < outputs_; ++i) bind(graph.outputs[i], Place::kOutput, i);
  return places;
}

void transom_executable::describe_step(const Step& step, const Node& node) {
  std::string inputs, outputs;
  for (size_t i = 0; i < step.inputs; ++i) inputs += (i ? " " : "") + to_string(node.input(i));
  for (size_t i = 0; i + step.inputs < step.values.size(); ++i) outputs += (i ? " " : "") + to_string(node.output(i));
  description_ +=
      fmt::format("{:>5}  {:<28}  {:<36}  {} -> {}\n", step.node, step.where, step.kernel.name, inputs, outputs);
}

bool transom_executable::overlap(size_t value, size_t other) const {
  const Place &a = places_[value], &b = places_[other];
  return a.kind == Place::kArena && b.kind == Place::kArena && a.index < b.index + b.bytes &&
         b.index < a.index + a.bytes;
}

// Whether the reader's results lie where the producer reads.
bool transom_executable::writes_over(const Step& step, const std::vector<std::byte*>& addresses) const {
  for (size_t w = step.reader->inputs; w < step.reader->values.size(); ++w)
    for (size_t r = 0; r < step.inputs; ++r) {
      const size_t written = step.reader->values[w], read = step.values[r];
      if (addresses[written] < addresses[read] + places_[read].bytes &&
          addresses[read] < addresses[written] + places_[written].bytes)
        return true;
    }
  return false;
}

// Whether nothing between the producer and step `until` writes over what the producer reads.
bool transom_executable::can_wait(size_t producer, size_t until) const {
  const Step& step = steps_[producer];
  const auto disturbs = [&](const Step& other) {
    for (size_t v = other.inputs; v < other.values.size(); ++v) {
      const size_t written = other.values[v];
      if (places_[written].kind != Place::kArena) return true;  // it may take the place of an input
      for (const size_t value : step.values)
        if (overlap(written, value)) return true;
    }
    return false;
  };
  for (size_t i = producer + 1; i < until; ++i)
    if (disturbs(steps_[i]) || (steps_[i].reader && disturbs(*steps_[i].reader))) return false;
  return true;
}

// A fusion that alone reads the result of a kernel that works in chunks is computed on each chunk while it is in the
// caches. The kernel waits for the fusion's other inputs.
void transom_executable::fuse_epilogues() {
  std::vector<size_t> uses(places_.size()), maker(places_.size(), kNowhere);
  for (size_t i = 0; i < steps_.size(); ++i)
    for (size_t v = 0; v < steps_[i].values.size(); ++v) {
      if (v < steps_[i].inputs) ++uses[steps_[i].values[v]];
      else maker[steps_[i].values[v]] = i;
    }
  std::vector<bool> gone(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& fusion = steps_[i];
    if (!fusion.kernel.tiles) continue;
    size_t producer = kNowhere;
    for (size_t v = 0; v < fusion.inputs; ++v) {
      const size_t value = fusion.values[v], made = maker[value];
      if (made == kNowhere || gone[made] || uses[value] != 1 || places_[value].kind != Place::kArena) continue;
      const Step& step = steps_[made];
      const bool fits = step.kernel.has_epilogue && !step.reader && step.values.size() == step.inputs + 1 &&
                        reads_in_order(*fusion.kernel.tiles, v) && can_wait(made, i);
      if (fits && (producer == kNowhere || made > producer)) producer = made;
    }
    if (producer == kNowhere) continue;
    Step joined = std::move(steps_[producer]);
    gone[producer] = true;
    joined.reader = std::make_shared<Step>(std::move(steps_[i]));
    scratch_bytes_ = std::max(scratch_bytes_, scratch_of(joined.kernel) + joined.reader->kernel.scratch_bytes);
    steps_[i] = std::move(joined);
    for (size_t v = steps_[i].inputs; v < steps_[i].values.size(); ++v) maker[steps_[i].values[v]] = i;
  }
  std::vector<Step> kept;
  for (size_t i = 0; i < steps_.size(); ++i)
    if (!gone[i]) kept.push_back(std::move(steps_[i]));
  steps_ = std::move(kept);
}

const char* transom_executable::describe() const {
  std::call_once(sources_added_, [this] {
    std::set<std::string> shown;
    const auto show = [&](const Step& step) {
      if (step.kernel.source && shown.insert(step.kernel.name).second)
        description_ += fmt::format("\nkernel {}:\n{}", step.kernel.name, step.kernel.source());
    };
    for (const Step& step : steps_) {
      show(step);
      if (step.reader) show(*step.reader);
    }
  });
  return description_.c_str();
}

transom_executable::Prepared transom_executable::prepare(const transom_launch& launch) const {
  if (launch.inputs_count != inputs_ || launch.outputs_count != outputs_)
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} inputs and {} outputs, found {} and {}", inputs_, outputs_,
         launch.inputs_count, launch.outputs_count);
  std::byte* arena = arena_size_ ? address(launch.arena, arena_size_, "arena", 0) : nullptr;
  std::vector<std::byte*> addresses(places_.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.index == kNowhere) continue;
    if (place.kind == Place::kInput)
      addresses[i] = address(launch.inputs[place.index], place.bytes, "input", place.index);
    else if (place.kind == Place::kOutput)
      addresses[i] = address(launch.outputs[place.index], place.bytes, "output", place.index);
    else addresses[i] = arena + place.index;
  }
  Prepared prepared{this, launch.stream, {}, {}, {}, {}};
  const auto add = [&](const Step& step) {
    for (size_t i = 0; i < step.values.size(); ++i) {
      const Place& place = places_[step.values[i]];
      const bool kept = i < step.inputs && place.frozen && place.kind == Place::kInput;
      prepared.operands.push_back(addresses[step.values[i]]);
      prepared.buffers.push_back(kept ? launch.inputs[place.index].buffer : nullptr);
      prepared.offsets.push_back(kept ? launch.inputs[place.index].offset : 0);
    }
  };
  for (const Step& step : steps_) {
    add(step);
    if (step.reader) add(*step.reader);
    prepared.apart.push_back(step.reader && writes_over(step, addresses));
  }
  return prepared;
}

Arguments transom_executable::arguments_of(const Step& step, const Prepared& prepared, size_t first, std::byte* scratch,
                                           const ChunkReader* reader) {
  std::byte* const* operands = prepared.operands.data() + first;
  return {operands, operands + step.inputs, prepared.buffers.data() + first, prepared.offsets.data() + first, scratch,
          reader};
}

void transom_executable::run_step(const Step& step, const Prepared& prepared, size_t first, std::byte* scratch,
                                  const ChunkReader* reader) const {
  const Arguments arguments = arguments_of(step, prepared, first, scratch, reader);
  try {
    step.kernel.run(arguments);
  } catch (const Failure& failure) {
    fail(failure.status(), "node {}, {}: {}", step.node, step.where, failure.what());
  }
}

void transom_executable::run(const Prepared& prepared) const {
  std::byte* scratch = prepared.stream->scratch(scratch_bytes_);
  const auto [profile, user] = device_->profile();
  size_t first = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Step* reader = step.reader.get();
    const size_t behind = first + step.values.size();
    const uint64_t begin = profile ? now() : 0;
    uint64_t middle = 0;
    if (reader && !prepared.apart[i]) {
      const Arguments arguments = arguments_of(*reader, prepared, behind, scratch + scratch_of(step.kernel), nullptr);
      std::vector<size_t> chunked;
      for (size_t v = 0; v < reader->inputs; ++v)
        if (reader->values[v] == step.values[step.inputs]) chunked.push_back(v);
      const EpilogueReader tiles(*reader->kernel.tiles, arguments, std::move(chunked));
      run_step(step, prepared, first, scratch, &tiles);
      middle = profile ? now() : 0;
    } else {
      run_step(step, prepared, first, scratch, nullptr);
      middle = profile ? now() : 0;
      if (reader) run_step(*reader, prepared, behind, scratch, nullptr);
    }
    if (profile) {
      profile(user, step.node, step.kernel.name.c_str(), begin, middle);
      if (reader) profile(user, reader->node, reader->kernel.name.c_str(), middle, now());
    }
    first = behind + (reader ? reader->values.size() : 0);
  }
}
