// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/partitioned_program.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/ops/movement/collectives.h"
#include "graph/passes/graph_builder.h"
#include "runtime/programs/device_program.h"
#include "runtime/programs/host_program.h"

namespace transom {
namespace {

constexpr size_t kAlways = SIZE_MAX;   // an output of the graph: used after the last step
constexpr size_t kNowhere = SIZE_MAX;  // no slot

// Takes views of values that lie in slots out of the partitions: gives what each is a view of. A program would copy
// them. What the graph gives out stays, since nobody may write there, but for one view of what a collective made, which
// is given out in its place.
TensorMap<Tensor> take_views(std::vector<Partition>& partitions, const Graph& graph) {
  const TensorSet given(graph.outputs.begin(), graph.outputs.end());
  TensorMap<Tensor> views;
  TensorSet given_out;  // in other shapes
  const auto may_go = [&](const Tensor& value, const Tensor& whole) {
    if (!given.contains(value)) return true;
    return is_collective(*whole.node()) && !given.contains(whole) && given_out.insert(whole).second;
  };
  for (Partition& partition : partitions) {
    TensorSet made;
    std::erase_if(partition.nodes, [&](const std::shared_ptr<Node>& node) {
      const Tensor value(node, 0);
      if (node->operation->view && !made.contains(node->inputs[0])) {
        const auto through = views.find(node->inputs[0]);
        const Tensor whole = through == views.end() ? node->inputs[0] : through->second;
        if (may_go(value, whole)) {
          views.emplace(value, whole);
          return true;
        }
      }
      for (const Tensor& output : outputs_of(node)) made.insert(output);
      return false;
    });
  }
  return views;
}

const Tensor& whole_of(const TensorMap<Tensor>& views, const Tensor& tensor) {
  const auto found = views.find(tensor);
  return found == views.end() ? tensor : found->second;
}

// Which partitions use each value, or views of it; the collective behind one counts as part of it.
struct Uses {
  TensorMap<size_t> last;   // the last partition
  TensorMap<size_t> count;  // how many nodes, and one for an output of the graph

  Uses(const std::vector<Partition>& partitions, const Graph& graph, const TensorMap<Tensor>& views) : views_(views) {
    for (size_t p = 0; p < partitions.size(); ++p) {
      for (const std::shared_ptr<Node>& node : partitions[p].nodes)
        for (const Tensor& input : node->inputs) note(input, p);
      if (partitions[p].collective) note(partitions[p].collective->inputs[0], p);
    }
    for (const Tensor& output : graph.outputs) note(output, kAlways);
  }
  void note(const Tensor& tensor, size_t partition) {
    const Tensor& whole = whole_of(views_, tensor);
    last[whole] = partition;
    ++count[whole];
  }

 private:
  const TensorMap<Tensor>& views_;
};

Collective kind_of(const Node& node) {
  if (is_op(node, op::all_reduce)) return Collective::kAllReduce;
  if (is_op(node, op::all_gather)) return Collective::kAllGather;
  if (is_op(node, op::reduce_scatter)) return Collective::kReduceScatter;
  if (is_op(node, op::all_to_all)) return Collective::kAllToAll;
  fail(ErrorKind::kInternal, "{}: a collective that is not run between programs", node.operation->name);
}

// A message `shift` places on, and one from as far before. Messages wait for the other side: along each circle that
// they make every second process receives first, so that none waits for one that waits for it.
void start_permute(Communicator& group, const Buffer& from, const Buffer& to, DType dtype, uint32_t shift) {
  const uint32_t ranks = group.ranks(), rank = group.rank();
  if (shift >= ranks) fail("a message {} places on among {} ranks", shift, ranks);
  const uint32_t circles = std::gcd(shift, ranks);
  uint32_t place = 0;  // along the circle
  for (uint32_t at = rank % circles; at != rank; at = (at + shift) % ranks) ++place;
  const auto send = [&] { group.start_send(from, dtype, (rank + shift) % ranks); };
  if (place % 2 == 0) send();
  group.start_receive(to, dtype, (rank + ranks - shift) % ranks);
  if (place % 2 != 0) send();
}

// Only a sum takes no more memory than its input.
bool may_be_in_place(const Node& collective) { return is_op(collective, op::all_reduce); }

}  // namespace

size_t PartitionedProgram::slot_of(const Tensor& tensor) {
  const auto [place, fresh] = slot_of_.try_emplace(tensor, slots_);
  if (fresh) {
    ++slots_;
    last_use_.push_back(0);
  }
  return place->second;
}

const Tensor& PartitionedProgram::whole_value_of(const Tensor& tensor) const { return whole_of(views_, tensor); }

PartitionedProgram::PartitionedProgram(std::shared_ptr<Device> device, const LoweredGraph& lowered,
                                       std::string* description)
    : device_(std::move(device)) {
  const Graph& graph = lowered.graph;
  std::vector<Partition> partitions = partition_graph(graph);
  views_ = take_views(partitions, graph);
  const Uses uses(partitions, graph, views_);
  for (size_t n = 0; n < graph.nodes.size(); ++n) place_.emplace(graph.nodes[n].get(), n);
  for (const Tensor& input : graph.inputs) slot_of(input);
  // Slots of all that crosses from partition to partition. A sum that alone uses its input works in place.
  TensorSet made;
  for (size_t p = 0; p < partitions.size(); ++p) {
    const Partition& partition = partitions[p];
    for (const std::shared_ptr<Node>& node : partition.nodes)
      for (const Tensor& output : outputs_of(node)) {
        made.insert(output);
        const auto last = uses.last.find(output);
        if (last == uses.last.end()) continue;
        if (last->second != p ||
            (partition.collective && whole_value_of(partition.collective->inputs[0]).same_as(output)))
          slot_of(output);
      }
    if (!partition.collective) continue;
    const Tensor &from = whole_value_of(partition.collective->inputs[0]), to = Tensor(partition.collective, 0);
    if (may_be_in_place(*partition.collective) && made.contains(from) && uses.count.at(from) == 1)
      slot_of_.emplace(to, slot_of(from));
    else slot_of(to);
  }
  for (const auto& [tensor, slot] : slot_of_)
    if (const auto last = uses.last.find(tensor); last != uses.last.end())
      last_use_[slot] = std::max(last_use_[slot], last->second);
  writing_steps_.resize(slots_);
  reading_steps_.resize(slots_);
  overwritten_slots_.resize(partitions.size(), kNowhere);
  is_overwritten_.resize(slots_);
  for (size_t p = 0; p < partitions.size(); ++p)
    if (partitions[p].collective) find_memory(partitions[p].collective, p, lowered);
  try {
    for (size_t p = 0; p < partitions.size(); ++p) add_step(partitions[p], p, p + 1 == partitions.size(), lowered);
    compile_steps(graph.inputs.size(), description);
  } catch (...) {
    for (const Step& step : steps_)
      if (step.exchange) device_->table().event_destroy(step.exchange->done);
    throw;
  }
  for (const Tensor& output : graph.outputs) outputs_.push_back(slot_of_.at(whole_value_of(output)));
  slot_of_.clear();
  views_.clear();
  place_.clear();
  last_use_.clear();
  writing_steps_.clear();
  reading_steps_.clear();
  overwritten_slots_.clear();
  is_overwritten_.clear();
  travelling_.clear();
  parts_.clear();
}

// What a collective makes for good, the new values of a parameter that processes update in parts, takes the memory of
// the old ones, which nobody reads any more. If the run fails afterwards they are lost.
void PartitionedProgram::find_memory(const std::shared_ptr<Node>& collective, size_t number,
                                     const LoweredGraph& lowered) {
  const Tensor result(collective, 0);
  const size_t to = slot_of_.at(result);
  if (last_use_[to] != kAlways || to == slot_of_.at(whole_value_of(collective->inputs[0]))) return;
  const std::vector<Tensor>& outputs = lowered.graph.outputs;
  const auto given = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const Tensor& output) { return whole_value_of(output).same_as(result); });
  if (given == outputs.end()) return;
  const auto maker = place_.find(given->node().get());
  if (maker == place_.end() || maker->second < lowered.first_update) return;
  for (size_t slot = 0; slot < lowered.graph.inputs.size(); ++slot) {
    if (!lowered.donated[slot] || is_overwritten_[slot] || last_use_[slot] > number ||
        lowered.graph.inputs[slot].type() != given->type())
      continue;
    overwritten_slots_[number] = slot;
    is_overwritten_[slot] = true;
    last_use_[slot] = number;
    return;
  }
}

PartitionedProgram::~PartitionedProgram() {
  for (const Step& step : steps_)
    if (step.exchange) device_->table().event_destroy(step.exchange->done);
}

size_t PartitionedProgram::temporary_bytes() const {
  size_t most = arena_bytes_;
  for (const Step& step : steps_)
    if (step.program) most = std::max(most, step.program->temporary_bytes());
  return most;
}

std::vector<ProgramPiece> PartitionedProgram::pieces() const {
  std::vector<ProgramPiece> all;
  for (const Step& step : steps_)
    if (step.program) {
      all.push_back(step.program->pieces().front());
      all.back().places = step.places;
    }
  return all;
}

void PartitionedProgram::add_step(const Partition& partition, size_t number, bool last, const LoweredGraph& lowered) {
  const size_t inputs = lowered.graph.inputs.size();
  Step step;
  const auto wait_for = [&](const std::vector<size_t>& steps) {
    for (const size_t other : steps)
      if (std::find(step.waits.begin(), step.waits.end(), other) == step.waits.end()) step.waits.push_back(other);
  };
  Graph part;
  part.nodes = partition.nodes;
  for (const std::shared_ptr<Node>& node : part.nodes) step.places.push_back(place_.at(node.get()));
  // What is wanted back after a failure stays until nothing but updates can fail.
  const auto is_update = [&](size_t place) { return place >= lowered.first_update; };
  const auto first_update = std::find_if(step.places.begin(), step.places.end(), is_update);
  const bool ends = partition.collective ? overwritten_slots_[number] != kNowhere : last;
  const bool may_update = ends && std::all_of(first_update, step.places.end(), is_update);
  TensorSet made, taken;
  std::vector<bool> donated, frozen, restorable;
  std::vector<size_t> readers(slots_);  // inputs of the part that lie in a slot: a value and views of it
  for (const std::shared_ptr<Node>& node : partition.nodes) {
    for (const Tensor& input : node->inputs) {
      if (made.contains(input) || !taken.insert(input).second) continue;
      const size_t slot = slot_of_.at(whole_value_of(input));
      ++readers[slot];
      const bool given = slot < inputs;
      part.inputs.push_back(input);
      step.inputs.push_back(slot);
      wait_for(writing_steps_[slot]);
      frozen.push_back(given && lowered.frozen[slot]);
      restorable.push_back(given && lowered.restorable[slot]);
      donated.push_back(
          last_use_[slot] == number && (!given || lowered.donated[slot]) && !is_overwritten_[slot] &&
          (!restorable.back() || may_update) &&
          !(partition.collective && whole_value_of(partition.collective->inputs[0]).same_as(whole_value_of(input))));
      // What a collective still reads is not to be written.
      if (donated.back()) wait_for(reading_steps_[slot]);
    }
    for (const Tensor& output : outputs_of(node)) made.insert(output);
  }
  // The program takes the two for two, and would write into the one while it reads the other.
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (readers[step.inputs[i]] > 1) donated[i] = false;
  for (const std::shared_ptr<Node>& node : partition.nodes)
    for (const Tensor& output : outputs_of(node))
      if (const auto slot = slot_of_.find(output); slot != slot_of_.end()) {
        part.outputs.push_back(output);
        step.outputs.push_back(slot->second);
      }
  if (partition.on_host && !part.nodes.empty()) {
    step.program = std::make_unique<HostProgram>(device_, isolate(part));
    ++executables_;
  } else if (!part.nodes.empty()) {
    parts_.emplace(number, ProgramPart{.graph = isolate(part),
                                       .donated = std::move(donated),
                                       .restorable = std::move(restorable),
                                       .frozen = std::move(frozen),
                                       .updates_from = static_cast<size_t>(first_update - step.places.begin())});
  }
  if (partition.collective) {
    step.exchange = exchange_of(*partition.collective);
    Exchange& exchange = *step.exchange;
    wait_for(writing_steps_[exchange.from]);
    if (overwritten_slots_[number] != kNowhere) {
      exchange.over = overwritten_slots_[number];
      wait_for(reading_steps_[*exchange.over]);
      step.overwritten.push_back(*exchange.over);
    }
    pace(*partition.collective, exchange, number, wait_for);
    writing_steps_[exchange.to] = {number};
    if (exchange.from != exchange.to) reading_steps_[exchange.from].push_back(number);
  }
  for (size_t slot = 0; slot < slots_; ++slot)
    if (last_use_[slot] == number && (slot < inputs || !step.exchange || slot != step.exchange->to))
      step.released.push_back(slot);
  steps_.push_back(std::move(step));
}

void PartitionedProgram::compile_steps(size_t inputs, std::string* description) {
  std::vector<const ProgramPart*> parts;
  for (const auto& [number, part] : parts_) parts.push_back(&part);
  EqualPrograms compiled = compile_programs(device_, parts, description);
  executables_ += compiled.executables;
  auto program = compiled.programs.begin();
  for (const auto& [number, part] : parts_) {
    Step& step = steps_[number];
    step.program = std::move(*program++);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i] < inputs && step.program->updates(i)) step.overwritten.push_back(step.inputs[i]);
    arena_bytes_ = std::max(arena_bytes_, step.program->arena_bytes());
  }
}

// Nothing waits for sums of gradients, nor for what is gathered for good, before the end of the run: all that they are
// made of would be held at once where computing is faster than the network. Two units of them may travel.
template <typename Wait>
void PartitionedProgram::pace(const Node& collective, const Exchange& exchange, size_t number, const Wait& wait_for) {
  const Attributes& attributes = collective.attributes;
  if (!exchange.over && (!attributes.has("unit") || attributes.has("late") || exchange.from == exchange.to)) return;
  const int64_t unit = attributes.get_int("unit", -1 - static_cast<int64_t>(number));
  if (travelling_.empty() || travelling_.back().unit != unit) travelling_.push_back({unit, {}});
  if (travelling_.size() > 2) {
    wait_for(travelling_.front().steps);
    travelling_.pop_front();
  }
  travelling_.back().steps.push_back(number);
}

std::unique_ptr<PartitionedProgram::Exchange> PartitionedProgram::exchange_of(const Node& collective) {
  auto exchange = std::make_unique<Exchange>();
  if (is_op(collective, op::collective_permute)) exchange->shift = collective.attributes.get_int("shift");
  else exchange->kind = kind_of(collective);
  exchange->from = slot_of_.at(whole_value_of(collective.inputs[0]));
  for (const auto& [tensor, slot] : slot_of_)
    if (tensor.node().get() == &collective) exchange->to = slot;
  const Type& type = collective.types[0];
  exchange->bytes = static_cast<size_t>(bytes_of(type));
  exchange->dtype = type.dtype;
  if (collective.attributes.has("group")) exchange->group = collective.attributes.get_ints("group");
  exchange->processes = collective.attributes.get_int("processes", 0);
  exchange->scope = *collective.scope;
  transom_error error{};
  device_->expect_ok(device_->table().event_create(device_->handle(), &exchange->done, &error), error);
  return exchange;
}

// Looked up at each run: the device may have joined other processes since.
Communicator& PartitionedProgram::group_of(const Exchange& exchange) const {
  Communicator* all = device_->communicator();
  if (!all) fail("{}: expected a device that has joined other processes, found one that is alone", exchange.scope);
  Communicator& group = exchange.group.empty() ? *all : all->group(exchange.group);
  if (exchange.processes > 0 && exchange.processes != group.ranks())
    fail("{}: a collective of {} processes: found {} of them", exchange.scope, exchange.processes, group.ranks());
  return group;
}

void PartitionedProgram::start(const Exchange& exchange, std::vector<std::shared_ptr<Buffer>>& slots) const {
  Communicator& group = group_of(exchange);
  if (exchange.over) slots[exchange.to] = slots[*exchange.over];
  else if (exchange.from != exchange.to) slots[exchange.to] = device_->allocate(exchange.bytes);
  const Buffer &from = *slots[exchange.from], &to = *slots[exchange.to];
  if (exchange.shift > 0) start_permute(group, from, to, exchange.dtype, static_cast<uint32_t>(exchange.shift));
  else group.start(exchange.kind, from, to, exchange.dtype);
  group.record(exchange.done);
}

Buffers PartitionedProgram::run(const Buffers& inputs) const {
  // One program at a time has the groups, so that all ranks start their collectives in one order.
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

Buffers PartitionedProgram::run_steps(const Buffers& inputs, size_t& done) const {
  std::vector<std::shared_ptr<Buffer>> slots(slots_);
  std::copy(inputs.begin(), inputs.end(), slots.begin());
  std::vector<bool> waited(steps_.size());
  const auto wait_for = [&](size_t number) {
    if (waited[number]) return;
    transom_error error{};
    device_->expect_ok(device_->table().event_wait(steps_[number].exchange->done, device_->stream(), &error), error);
    waited[number] = true;
  };
  for (const Step& step : steps_) {
    for (const size_t number : step.waits) wait_for(number);
    if (step.program) {
      Buffers given;
      for (const size_t slot : step.inputs) given.push_back(slots[slot]);
      const Buffers made = step.program->run(given);
      for (size_t i = 0; i < made.size(); ++i) slots[step.outputs[i]] = made[i];
    }
    ++done;
    if (step.exchange) start(*step.exchange, slots);
    for (const size_t slot : step.released) slots[slot].reset();
  }
  for (size_t number = 0; number < steps_.size(); ++number)
    if (steps_[number].exchange) wait_for(number);
  Buffers results;
  for (const size_t slot : outputs_) results.push_back(slots[slot]);
  return results;
}

std::unique_ptr<Executable> make_executable(const std::shared_ptr<Device>& device, const LoweredGraph& lowered,
                                            std::string* description) {
  if (needs_partition(lowered.graph)) return std::make_unique<PartitionedProgram>(device, lowered, description);
  return std::make_unique<DeviceProgram>(device, lowered.graph, lowered.plan, lowered.frozen, lowered.restorable,
                                         description);
}

}  // namespace transom
