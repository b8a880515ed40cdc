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
  running_->clocks_alone = ipu_emulator::clocks_alone();
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
