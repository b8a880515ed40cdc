// SPDX-License-Identifier: Apache-2.0
#include "poplar/Engine.hpp"

#include <cstring>
#include <deque>

#include "poplar/exceptions.hpp"
#include "simulator/compile.h"

namespace ipu_emulator {
namespace {

void run_vertex(Memory& memory, const Vertex& vertex) {
  std::deque<Access> accesses;
  vertex.codelet->run([&](void* object) {
    for (const CodeletField& field : vertex.codelet->fields) {
      if (field.direction == Direction::kValue) {
        const Vertex::Value& value = vertex.values.at(field.name);
        field.assign_value(object, value.real, value.integer);
        continue;
      }
      const poplar::Tensor& tensor = vertex.tensors.at(field.name);
      const Access& access =
          accesses.emplace_back(memory, tensor, field.direction != Direction::kOut, field.direction != Direction::kIn);
      field.assign(object, access.data(), tensor.numElements());
    }
  });
}

// Rows behind each other, zeros at first.
std::byte* remote_row(Running& running, const std::string& handle, size_t row) {
  const auto& buffers = running.compiled->graph->remote_buffers;
  const auto found = buffers.find(handle);
  if (found == buffers.end())
    throw poplar::stream_connection_error("expected a remote buffer of the graph, found \"" + handle + "\"");
  const poplar::RemoteBuffer& buffer = found->second;
  if (row >= buffer.getRepeats())
    throw poplar::stream_connection_error("remote buffer \"" + handle + "\": expected a row below " +
                                          std::to_string(buffer.getRepeats()) + ", found " + std::to_string(row));
  const size_t bytes = buffer.numElements() * size_of(buffer.elementType());
  std::vector<std::byte>& memory = running.remote[handle];
  memory.resize(buffer.getRepeats() * bytes);
  return memory.data() + row * bytes;
}

// What leaves is zero, so that nobody takes what was there before for a result.
void clock_step(const Running& running, const Step& step) {
  if (step.kind != Step::Kind::kStreamOut) return;
  const auto found = running.streams.find(step.handle);
  if (found == running.streams.end())
    throw poplar::stream_connection_error("expected the stream \"" + step.handle + "\" to be connected");
  const size_t bytes = step.reads[0].numElements() * size_of(step.reads[0].elementType());
  const auto [begin, end] = found->second;
  if (!end || static_cast<size_t>(static_cast<char*>(end) - static_cast<char*>(begin)) >= bytes)
    std::memset(begin, 0, bytes);
}

void run_step(Running& running, const Step& step) {
  if (running.clocks_alone) return clock_step(running, step);
  Memory& memory = *running.memory;
  switch (step.kind) {
    case Step::Kind::kOperation:
    case Step::Kind::kCopy:
      return step.run(memory);
    case Step::Kind::kExecute:
      for (const uint32_t id : memory.graph().compute_sets[step.compute_set].vertices)
        run_vertex(memory, memory.graph().vertices[id]);
      return;
    case Step::Kind::kStreamIn:
    case Step::Kind::kStreamOut: {
      const bool in = step.kind == Step::Kind::kStreamIn;
      const poplar::Tensor& tensor = in ? step.writes[0] : step.reads[0];
      const auto found = running.streams.find(step.handle);
      if (found == running.streams.end())
        throw poplar::stream_connection_error("expected the stream \"" + step.handle + "\" to be connected");
      const size_t bytes = tensor.numElements() * size_of(tensor.elementType());
      const auto [begin, end] = found->second;
      if (end && static_cast<size_t>(static_cast<char*>(end) - static_cast<char*>(begin)) < bytes)
        throw poplar::stream_connection_error("expected " + std::to_string(bytes) + " bytes behind the stream \"" +
                                              step.handle + "\"");
      if (in) write_tensor(memory, tensor, begin);
      else read_tensor(memory, tensor, begin);
      return;
    }
    case Step::Kind::kRemoteIn:
      return write_tensor(memory, step.writes[0], remote_row(running, step.handle, 0));
    case Step::Kind::kRemoteOut:
      return read_tensor(memory, step.reads[0], remote_row(running, step.handle, 0));
    default:
      return;
  }
}

// Repeats run as they stand in the program; phases say only what they cost.
void run_all(Running& running, const std::vector<Phase>& phases) {
  for (size_t i = 0; i < phases.size();) {
    size_t end = i + 1;
    while (end < phases.size() && phases[i].repeat && phases[end].repeat == phases[i].repeat) ++end;
    for (uint64_t round = 0; round < (running.clocks_alone ? 1 : phases[i].times); ++round)
      for (size_t p = i; p < end; ++p) run_step(running, *phases[p].step);
    for (size_t p = i; p < end; ++p) {
      running.cycles += phases[p].cycles();
      for (const uint32_t variable : phases[p].dead) running.memory->release(variable);
    }
    i = end;
  }
}

}  // namespace
}  // namespace ipu_emulator

namespace poplar {

Engine::Engine(Executable executable, const OptionFlags&) : running_(std::make_shared<ipu_emulator::Running>()) {
  running_->compiled = executable.compiled();
}

Engine::Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options)
    : Engine(compileGraph(graph, programs, options), options) {}

void Engine::load(const Device& device) {
  const Target &mine = running_->compiled->graph->target, &its = device.getTarget();
  if (mine.getNumTiles() != its.getNumTiles() || mine.getTargetArchString() != its.getTargetArchString())
    throw poplar_error("expected a device of " + std::to_string(mine.getNumTiles()) + " tiles of " +
                       mine.getTargetArchString());
  running_->memory = std::make_unique<ipu_emulator::Memory>(running_->compiled->graph);
  running_->memory->replicas = running_->replicas;
  running_->clocks_alone = ipu_emulator::clocks_alone();
}

namespace {

size_t row_bytes(const ipu_emulator::Running& running, const std::string& handle) {
  const RemoteBuffer& buffer = running.compiled->graph->remote_buffers.at(handle);
  return buffer.numElements() * ipu_emulator::size_of(buffer.elementType());
}

void expect_own_replica(unsigned replica) {
  if (replica != 0)
    throw poplar_error("expected replica 0, found " + std::to_string(replica) +
                       ": each process, or thread, has the engine of one replica");
}

}  // namespace

void Engine::copyToRemoteBuffer(void* from, std::string handle, int repeatIndex, unsigned replicationIndex) {
  expect_own_replica(replicationIndex);
  std::byte* row = ipu_emulator::remote_row(*running_, handle, static_cast<size_t>(repeatIndex));
  if (const size_t bytes = row_bytes(*running_, handle)) std::memcpy(row, from, bytes);
}

void Engine::copyFromRemoteBuffer(std::string handle, void* to, int repeatIndex, unsigned replicationIndex) {
  expect_own_replica(replicationIndex);
  const std::byte* row = ipu_emulator::remote_row(*running_, handle, static_cast<size_t>(repeatIndex));
  if (const size_t bytes = row_bytes(*running_, handle)) std::memcpy(to, row, bytes);
}

void Engine::connectStream(const std::string& handle, void* begin) { connectStream(handle, begin, nullptr); }

void Engine::connectStream(const std::string& handle, void* begin, void* end) {
  if (!running_->compiled->graph->streams.count(handle))
    throw stream_connection_error("expected a stream of the graph, found \"" + handle + "\"");
  running_->streams[handle] = {begin, end};
}

void Engine::run(unsigned program) {
  if (!running_->memory) throw poplar_error("expected an engine that was loaded");
  ipu_emulator::run_all(*running_, running_->compiled->programs.at(program));
}

}  // namespace poplar
