// SPDX-License-Identifier: Apache-2.0
// Steps of programs, and what they cost each tile.
#include <algorithm>
#include <unordered_map>

#include "poplar/Program.hpp"
#include "simulator/kernels.h"

namespace ipu_emulator {
namespace {

std::shared_ptr<Step> make_step(Step::Kind kind, std::string name) {
  auto step = std::make_shared<Step>();
  step->kind = kind;
  step->name = std::move(name);
  return step;
}

void expect_mapped(const poplar::Tensor& tensor, const Layout& layout, const std::string& name) {
  for (const Run& run : layout.runs)
    if (run.tile == kNoTile) {
      const auto graph = tensor.view().graph.lock();
      std::string variable = "a tensor";
      if (!tensor.view().places) variable = "\"" + graph->variables[tensor.view().variable].name + "\"";
      throw poplar::invalid_tile_mapping(name + ": expected every element on a tile, found none for element " +
                                         std::to_string(run.begin) + " of " + variable +
                                         "; call Graph::setTileMapping");
    }
}

// Bytes of `from` that each tile of `to` has to receive, element by element of both.
template <typename Receive>
void exchanged(const Layout& from, const Layout& to, uint64_t elements, size_t size, Receive&& receive) {
  if (!from.exact || !to.exact) {
    for (const Run& run : to.runs) receive(run.tile, (run.end - run.begin) * size);
    return;
  }
  size_t f = 0, t = 0;
  for (uint64_t at = 0; at < elements;) {
    const uint64_t end = std::min(from.runs[f].end, to.runs[t].end);
    if (from.runs[f].tile != to.runs[t].tile) receive(to.runs[t].tile, (from.runs[f].repeated ? 1 : end - at) * size);
    at = end;
    if (from.runs[f].end == end) ++f;
    if (to.runs[t].end == end) ++t;
  }
}

class Works {
 public:
  TileWork& of(uint32_t tile) {
    const auto [place, is_new] = places_.try_emplace(tile, work.size());
    if (is_new) work.push_back({tile});
    return work[place->second];
  }
  std::vector<TileWork> work;

 private:
  std::unordered_map<uint32_t, size_t> places_;
};

// What lies on the tiles of `to` is copied there from `from`.
std::vector<TileWork> copy_work(const poplar::Tensor& from, const poplar::Tensor& to, const std::string& name) {
  const Layout there = layout_of(from), here = layout_of(to);
  expect_mapped(from, there, name);
  expect_mapped(to, here, name);
  Works works;
  const size_t size = size_of(to.elementType());
  for (const Run& run : here.runs) works.of(run.tile);
  exchanged(there, here, to.numElements(), size,
            [&](uint32_t tile, uint64_t bytes) { works.of(tile).received += bytes; });
  for (const Run& run : here.runs) works.of(run.tile).cycles += (run.end - run.begin) * size / 8;
  for (TileWork& work : works.work) work.cycles -= std::min(work.cycles, work.received / 8);
  return std::move(works.work);
}

const RegisterKernel kCopyKernel("copy", [](const Step& step, Reader&) -> std::function<void(Memory&)> {
  expect_tensors(step, 1, 1);
  const poplar::Tensor from = step.reads[0], to = step.writes[0];
  Reader::expect(from.numElements() == to.numElements() && from.elementType() == to.elementType(),
                 "a copy between tensors of one size");
  return [from, to](Memory& memory) {
    if (to.isContiguous()) {
      const Access out(memory, to, false, true);
      return read_tensor(memory, from, out.data());
    }
    const Access in(memory, from, true, false);
    write_tensor(memory, to, in.data());
  };
});

}  // namespace

void add_step(poplar::program::Sequence& program, std::shared_ptr<Step> step) {
  program.step()->children.push_back(std::move(step));
}

void add_operation(poplar::Graph&, poplar::program::Sequence& program, Operation operation) {
  const poplar::Tensor& result = operation.writes.empty() ? operation.updates.at(0) : operation.writes[0];
  auto step = make_step(Step::Kind::kOperation, operation.name);
  const Layout here = layout_of(result);
  if (!here.runs.empty() && here.runs.back().tile == kNoTile)  // a result that lies as an operand without a place
    for (const poplar::Tensor& read : operation.reads) expect_mapped(read, layout_of(read), operation.name);
  expect_mapped(result, here, operation.name);
  Works works;
  std::unordered_map<uint32_t, uint64_t> elements;
  for (const Run& run : here.runs) elements[run.tile] += run.end - run.begin;
  for (const Run& run : here.runs) {
    const auto found = elements.find(run.tile);
    if (found == elements.end()) continue;
    const uint64_t count = found->second;
    elements.erase(found);
    TileWork& work = works.of(run.tile);
    work.cycles = operation.cycles ? operation.cycles(count) : count;
    work.temporary = count * operation.temporary_per_element;
    work.vertices = 6;
  }
  const auto include = [&](const poplar::Tensor& read) {
    const size_t size = size_of(read.elementType());
    if (read.numElements() == 0) return;
    const Layout there = layout_of(read);
    expect_mapped(read, there, operation.name);
    if (read.numElements() == result.numElements()) {
      exchanged(there, here, result.numElements(), size,
                [&](uint32_t tile, uint64_t bytes) { works.of(tile).received += bytes; });
      return;
    }
    // Spread over those that compute, each its share, or all of it where it is small.
    const uint64_t share = std::max<uint64_t>(std::min<uint64_t>(read.numElements(), 64),
                                              read.numElements() / std::max<size_t>(1, works.work.size()));
    for (TileWork& work : works.work) work.received += share * size;
  };
  for (const poplar::Tensor& read : operation.reads) include(read);
  step->work = std::move(works.work);
  step->codelet = std::move(operation.codelet);
  step->reads = std::move(operation.reads);
  step->writes = std::move(operation.writes);
  step->updates = std::move(operation.updates);
  step->kernel = std::move(operation.kernel);
  step->parameters = std::move(operation.parameters);
  step->flops = operation.flops;
  step->replica_bytes = operation.replica_bytes;
  add_step(program, std::move(step));
}

}  // namespace ipu_emulator

namespace poplar::program {

using ipu_emulator::Step;

Sequence::Sequence(const DebugContext& debugContext) {
  step_ = ipu_emulator::make_step(Step::Kind::kSequence, debugContext.getPathName());
}

Sequence::Sequence(std::initializer_list<Program> programs, const DebugContext& debugContext) : Sequence(debugContext) {
  for (const Program& program : programs) add(program);
}

void Sequence::add(const Program& program) { step_->children.push_back(program.step()); }

Execute::Execute(const ComputeSet& cs, const DebugContext& debugContext) {
  step_ = ipu_emulator::make_step(Step::Kind::kExecute, debugContext.getPathName());
  step_->compute_set = cs.getId();
}

Copy::Copy(const Tensor& from, const Tensor& to, bool, const DebugContext& debugContext) {
  if (from.numElements() != to.numElements() || from.elementType() != to.elementType())
    throw graph_error("Copy: expected two tensors of one type and as many elements, found " + from.shapeToString() +
                      " and " + to.shapeToString());
  step_ = ipu_emulator::make_step(Step::Kind::kCopy, debugContext.getPathName());
  step_->reads = {from};
  step_->writes = {to};
  step_->work = ipu_emulator::copy_work(from, to, "Copy " + debugContext.getPathName());
  step_->kernel = "copy";
}

Copy::Copy(const DataStream& stream, const Tensor& to, bool, const DebugContext&) {
  if (!stream.toDevice() || stream.elementType() != to.elementType() || to.numElements() != stream.numElements())
    throw graph_error("Copy: expected a stream to the device of the tensor's type and size: \"" + stream.handle() +
                      "\"");
  step_ = ipu_emulator::make_step(Step::Kind::kStreamIn, stream.handle());
  step_->handle = stream.handle();
  step_->writes = {to};
}

Copy::Copy(const Tensor& from, const DataStream& stream, bool, const DebugContext&) {
  if (stream.toDevice() || stream.elementType() != from.elementType() || from.numElements() != stream.numElements())
    throw graph_error("Copy: expected a stream to the host of the tensor's type and size: \"" + stream.handle() + "\"");
  step_ = ipu_emulator::make_step(Step::Kind::kStreamOut, stream.handle());
  step_->handle = stream.handle();
  step_->reads = {from};
}

namespace {

void expect_row(const RemoteBuffer& buffer, const Tensor& tensor) {
  if (buffer.elementType() != tensor.elementType() || buffer.numElements() != tensor.numElements() ||
      buffer.getRepeats() != 1)
    throw graph_error("Copy: expected a remote buffer of one row of the tensor's type and size, " +
                      tensor.elementType().toString() + " " + tensor.shapeToString() + ": \"" + buffer.handle() +
                      "\" has " + std::to_string(buffer.getRepeats()) + " of " + std::to_string(buffer.numElements()) +
                      " " + buffer.elementType().toString());
}

}  // namespace

Copy::Copy(const RemoteBuffer& from, const Tensor& to, const DebugContext&) {
  expect_row(from, to);
  step_ = ipu_emulator::make_step(Step::Kind::kRemoteIn, from.handle());
  step_->handle = from.handle();
  step_->writes = {to};
}

Copy::Copy(const Tensor& from, const RemoteBuffer& to, const DebugContext&) {
  expect_row(to, from);
  step_ = ipu_emulator::make_step(Step::Kind::kRemoteOut, to.handle());
  step_->handle = to.handle();
  step_->reads = {from};
}

Repeat::Repeat(unsigned times, const Program& body, const DebugContext& debugContext) {
  step_ = ipu_emulator::make_step(Step::Kind::kRepeat, debugContext.getPathName());
  step_->times = times;
  step_->children = {body.step()};
}

WriteUndef::WriteUndef(const Tensor& tensor, const DebugContext& debugContext) {
  step_ = ipu_emulator::make_step(Step::Kind::kUndef, debugContext.getPathName());
  step_->writes = {tensor};
}

}  // namespace poplar::program
