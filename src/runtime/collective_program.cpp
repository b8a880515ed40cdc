// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective_program.h"

#include <algorithm>

#include "base/error.h"
#include "device/communicator.h"
#include "passes/graph_builder.h"
#include "runtime/node_costs.h"
#include "runtime/program.h"

namespace transom {
namespace {

constexpr size_t kAlways = SIZE_MAX;  // an output of the graph: used after the last step

// Which pieces use each value; the collective behind a piece counts as part of it.
struct Uses {
  TensorMap<size_t> last;   // the last piece
  TensorMap<size_t> count;  // how many nodes, and one for an output of the graph

  Uses(const std::vector<Partition>& pieces, const Graph& graph) {
    for (size_t p = 0; p < pieces.size(); ++p) {
      for (const std::shared_ptr<Node>& node : pieces[p].nodes)
        for (const Tensor& input : node->inputs) note(input, p);
      if (pieces[p].collective) note(pieces[p].collective->inputs[0], p);
    }
    for (const Tensor& output : graph.outputs) note(output, kAlways);
  }
  void note(const Tensor& tensor, size_t piece) {
    last[tensor] = piece;
    ++count[tensor];
  }
};

}  // namespace

size_t CollectiveProgram::slot_of(const Tensor& tensor) {
  const auto [place, fresh] = slot_of_.try_emplace(tensor, slots_);
  if (fresh) {
    ++slots_;
    last_use_.push_back(0);
  }
  return place->second;
}

CollectiveProgram::CollectiveProgram(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options)
    : device_(std::move(device)) {
  const std::vector<Partition> pieces = partition_at_collectives(graph);
  const Uses uses(pieces, graph);
  for (const Tensor& input : graph.inputs) slot_of(input);
  // Slots of all that crosses from piece to piece. A collective that alone uses its input works in place.
  TensorSet made;
  for (size_t p = 0; p < pieces.size(); ++p) {
    for (const std::shared_ptr<Node>& node : pieces[p].nodes)
      for (const Tensor& output : outputs_of(node)) {
        made.insert(output);
        const auto last = uses.last.find(output);
        if (last == uses.last.end()) continue;
        if (last->second != p || (pieces[p].collective && pieces[p].collective->inputs[0].same_as(output)))
          slot_of(output);
      }
    if (!pieces[p].collective) continue;
    const Tensor &from = pieces[p].collective->inputs[0], to = Tensor(pieces[p].collective, 0);
    if (made.contains(from) && uses.count.at(from) == 1) slot_of_.emplace(to, slot_of(from));
    else slot_of(to);
  }
  for (const auto& [tensor, slot] : slot_of_)
    if (const auto last = uses.last.find(tensor); last != uses.last.end())
      last_use_[slot] = std::max(last_use_[slot], last->second);
  for (size_t p = 0; p < pieces.size(); ++p) add_step(pieces[p], p, graph, options);
  for (const Tensor& output : graph.outputs) outputs_.push_back(slot_of_.at(output));
  slot_of_.clear();
  last_use_.clear();
}

CollectiveProgram::~CollectiveProgram() = default;

void CollectiveProgram::add_step(const Partition& piece, size_t number, const Graph& graph,
                                 const ProgramOptions& options) {
  Step step;
  Graph part;
  part.nodes = piece.nodes;
  TensorSet made, taken;
  ProgramOptions of_part;
  for (const std::shared_ptr<Node>& node : piece.nodes) {
    for (const Tensor& input : node->inputs) {
      if (made.contains(input) || !taken.insert(input).second) continue;
      const size_t slot = slot_of_.at(input);
      const bool given = slot < graph.inputs.size();
      part.inputs.push_back(input);
      step.inputs.push_back(slot);
      step.waits |= is_collective(*input.node());
      const bool restorable = given && slot < options.restorable.size() && options.restorable[slot];
      of_part.frozen.push_back(given && options.frozen[slot]);
      // What is wanted back after a failure stays until nothing but the last partition can fail.
      of_part.donated.push_back(last_use_[slot] == number && (!given || options.donated[slot]) &&
                                (!restorable || !piece.collective) &&
                                !(piece.collective && piece.collective->inputs[0].same_as(input)));
      of_part.restorable.push_back(restorable);
    }
    for (const Tensor& output : outputs_of(node)) made.insert(output);
  }
  for (const std::shared_ptr<Node>& node : piece.nodes)
    for (const Tensor& output : outputs_of(node))
      if (const auto slot = slot_of_.find(output); slot != slot_of_.end()) {
        part.outputs.push_back(output);
        step.outputs.push_back(slot->second);
      }
  if (!part.nodes.empty()) {
    step.program = std::make_unique<Program>(device_, part, of_part, AlreadyLowered());
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] < graph.inputs.size() && step.program->updates(i)) step.overwritten.push_back(step.inputs[i]);
  }
  if (piece.collective) {
    if (!is_op(*piece.collective, op::all_reduce) || piece.collective->attributes.has("group"))
      fail("{}: expected a sum over all processes, which alone is run between programs yet, found {}",
           *piece.collective->scope, operation_of(*piece.collective));
    step.reduces = true;
    step.from = slot_of_.at(piece.collective->inputs[0]);
    step.to = slot_of_.at(Tensor(piece.collective, 0));
    step.dtype = piece.collective->types[0].dtype;
  }
  for (size_t slot = 0; slot < slots_; ++slot)
    if (last_use_[slot] == number && (slot < graph.inputs.size() || slot != step.to || !step.reduces))
      step.released.push_back(slot);
  steps_.push_back(std::move(step));
}

std::shared_ptr<Buffer> CollectiveProgram::copy_of(const Buffer& buffer) const {
  std::shared_ptr<Buffer> copy = device_->allocate(buffer.bytes());
  transom_error error{};
  device_->expect_ok(device_->table().copy_on_device(device_->stream(), {buffer.handle(), 0}, {copy->handle(), 0},
                                                     buffer.bytes(), &error),
                     error);
  return copy;
}

std::vector<std::shared_ptr<Buffer>> CollectiveProgram::run(const std::vector<std::shared_ptr<Buffer>>& inputs) const {
  // One program at a time has the group, so that all ranks start their collectives in one order.
  const auto turn = device_->take_turn();
  size_t done = 0;
  try {
    return run_steps(inputs, done);
  } catch (...) {  // a program that fails says so by itself; those before it have done their work
    for (size_t i = 0; i < done; ++i)
      for (const size_t input : steps_[i].overwritten) inputs[input]->set_overwritten();
    throw;
  }
}

std::vector<std::shared_ptr<Buffer>> CollectiveProgram::run_steps(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                                                  size_t& done) const {
  Communicator& group = *device_->communicator();
  std::vector<std::shared_ptr<Buffer>> slots(slots_);
  std::copy(inputs.begin(), inputs.end(), slots.begin());
  bool started = false;
  for (const Step& step : steps_) {
    if (step.waits && started) {
      group.wait();
      started = false;
    }
    if (step.program) {
      std::vector<std::shared_ptr<Buffer>> given;
      for (const size_t slot : step.inputs) given.push_back(slots[slot]);
      const std::vector<std::shared_ptr<Buffer>> made = step.program->run(given);
      for (size_t i = 0; i < made.size(); ++i) slots[step.outputs[i]] = made[i];
    }
    ++done;
    if (step.reduces) {
      if (step.from != step.to) slots[step.to] = copy_of(*slots[step.from]);
      group.start_all_reduce(*slots[step.to], step.dtype);
      started = true;
    }
    for (const size_t slot : step.released) slots[slot].reset();
  }
  if (started) group.wait();
  std::vector<std::shared_ptr<Buffer>> results;
  for (const size_t slot : outputs_) results.push_back(slots[slot]);
  return results;
}

}  // namespace transom
