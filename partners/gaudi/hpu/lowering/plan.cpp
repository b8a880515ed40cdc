// SPDX-License-Identifier: Apache-2.0
#include "hpu/lowering/plan.h"

#include <algorithm>
#include <map>

#include "hpu/host/host_value.h"
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

class Planner {
 public:
  Planner(const transom_graph& graph, synDeviceType device, bool int64) : device_(device), int64_(int64) {
    for (size_t i = 0; i < graph.values_count; ++i) plan_.values.push_back(type_of(graph, static_cast<int32_t>(i)));
    plan_.inputs = checked(graph.inputs, graph.inputs_count);
    plan_.outputs = checked(graph.outputs, graph.outputs_count);
    size_t source = 0;
    for (const transom_node& node : plugin::Nodes(graph))
      add_step(Node(graph, node), checked(node.inputs, node.inputs_count), checked(node.outputs, node.outputs_count),
               source++);
  }

  Plan make() {
    wide_.assign(plan_.values.size(), false);
    mark_constants();
    find_keys();
    for (Step& step : plan_.steps) place(step);
    number_segments();
    collect_segments();
    return std::move(plan_);
  }

 private:
  std::vector<size_t> checked(const int32_t* indices, size_t count) const {
    std::vector<size_t> result;
    for (size_t i = 0; i < count; ++i) {
      if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= plan_.values.size())
        fail(TRANSOM_INVALID_ARGUMENT, "expected a value below {}, found {}", plan_.values.size(), indices[i]);
      result.push_back(static_cast<size_t>(indices[i]));
    }
    return result;
  }

  // The words of Philox are the host's; all else of `dropout` is the device's.
  void add_step(Node node, std::vector<size_t> inputs, std::vector<size_t> outputs, size_t source) {
    if (node.op() != "dropout") {
      plan_.steps.push_back({std::move(node), std::move(inputs), std::move(outputs), source});
      return;
    }
    const size_t mask = plan_.values.size();
    plan_.values.push_back({TRANSOM_BOOL, node.input(0).shape});
    const Type& type = plan_.values.back();
    Node draw("dropout_mask", node, {node.input(1)}, {type});
    Node apply("dropout_apply", node, {node.input(0), type}, {node.output()});
    plan_.steps.push_back({std::move(draw), {inputs[1]}, {mask}, source});
    plan_.steps.push_back({std::move(apply), {inputs[0], mask}, std::move(outputs), source});
  }

  // Keys of random numbers are whole 64-bit integers, and so is what they are computed from. Constants among that are
  // made again by each side that reads them: many other nodes may share a 0 with a key.
  void find_keys() {
    // Eager mode's graph of one node does not show what its integers are for: those of the size of a key may be one.
    constexpr int64_t kKey = 2;
    const auto like_key = [](const Type& type) { return type.dtype == TRANSOM_INT64 && type.count() <= kKey; };
    if (!int64_ && plan_.steps.size() == 1 && std::all_of(plan_.values.begin(), plan_.values.end(), like_key))
      wide_.assign(plan_.values.size(), true);
    for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step) {
      const bool draws = step->node.op() == "random_bits" || step->node.op() == "dropout_mask";
      const bool makes = std::any_of(step->outputs.begin(), step->outputs.end(), [&](size_t v) { return wide_[v]; });
      if (!draws && !makes) continue;
      for (const size_t value : step->inputs)
        if (plan_.values[value].dtype == TRANSOM_INT64 && !int64_ && !constant_[value]) wide_[value] = true;
    }
  }

  // The lowering itself says whether there is one: it is tried on a graph that is thrown away.
  std::string why_not_on_device(const Step& step) const {
    const auto wide = [&](size_t value) { return wide_[value]; };
    if (std::any_of(step.inputs.begin(), step.inputs.end(), wide) ||
        std::any_of(step.outputs.begin(), step.outputs.end(), wide))
      return "its 64-bit integers may be beyond 32 bits";
    const auto lowering = lowering_table().find(step.node.op());
    if (lowering == lowering_table().end()) return "no kernel does it";
    const auto empty = [](const Type& type) { return type.count() == 0; };
    if (std::any_of(step.node.inputs().begin(), step.node.inputs().end(), empty) ||
        std::any_of(step.node.outputs().begin(), step.node.outputs().end(), empty))
      return "";  // nothing to compute, nothing to say
    try {
      Emitter emit(device_, int64_);
      Values inputs;
      for (const Type& type : step.node.inputs())
        inputs.push_back(emit.tensor(emit.element_of(type.dtype), Emitter::canonical(type.shape)));
      for (const Type& type : step.node.outputs()) emit.element_of(type.dtype);
      lowering->second.lower(step.node, emit, inputs);
    } catch (const Failure& failure) {
      if (failure.status() != TRANSOM_UNSUPPORTED) throw;
      return failure.what();
    }
    return kOnDevice;
  }

  void place(Step& step) {
    std::string reason;
    try {
      reason = why_not_on_device(step);
    } catch (const Failure& failure) {
      fail(failure.status(), "node {}, {}: {}", step.source, step.node.place(), failure.what());
    }
    step.on_host = reason != kOnDevice;
    plan_.host_reasons.push_back(step.on_host ? reason : "");
    if (!step.on_host) return;
    if (!host_knows(step.node.op()))
      fail(TRANSOM_UNSUPPORTED, "node {}, {}: {}, and the host cannot do it either", step.source, step.node.place(),
           reason.empty() ? "its tensors are empty" : reason);
    // Places are small; what else the host makes of 64 bits may not be.
    const bool places = step.node.op() == "sort" || step.node.op() == "top_k" || step.node.op() == "arg_max" ||
                        step.node.op() == "arg_min" || step.node.op() == "iota";
    for (const size_t value : step.outputs)
      if (plan_.values[value].dtype == TRANSOM_INT64 && !int64_ && !places) wide_[value] = true;
  }

  void mark_constants() {
    constant_.assign(plan_.values.size(), false);
    for (Step& step : plan_.steps) {
      const std::string& op = step.node.op();
      const bool cheap = step.inputs.empty() || op == "broadcast" || op == "reshape" || op == "cast";
      step.anywhere =
          cheap && std::all_of(step.inputs.begin(), step.inputs.end(), [&](size_t v) { return constant_[v]; });
      for (const size_t value : step.outputs) constant_[value] = step.anywhere;
    }
  }

  // Even segments are the host's, odd ones the device's.
  void number_segments() {
    std::vector<size_t> segment(plan_.values.size(), 0);
    for (Step& step : plan_.steps) {
      if (step.anywhere) continue;
      size_t number = step.on_host ? 0 : 1;
      for (const size_t value : step.inputs) {
        const size_t least = segment[value];
        if (least > number) number = least % 2 == number % 2 ? least : least + 1;
      }
      step.segment = number;
      for (const size_t value : step.outputs) segment[value] = number;
    }
  }

  void collect_segments() {
    std::map<size_t, Segment> segments;
    std::map<size_t, std::vector<size_t>> wanted;  // by segment: its own steps
    std::vector<size_t> maker(plan_.values.size(), kNobody);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      for (const size_t value : plan_.steps[i].outputs) maker[value] = i;
      if (!plan_.steps[i].anywhere) wanted[plan_.steps[i].segment].push_back(i);
    }
    // Outputs of the graph that are constants: the device makes them, if it can.
    for (const size_t output : plan_.outputs) {
      if (maker[output] == kNobody) fail(TRANSOM_INVALID_ARGUMENT, "output {} is made by no node", output);
      Step& step = plan_.steps[maker[output]];
      if (!step.anywhere) continue;
      const size_t number = step.on_host ? 0 : 1;
      if (std::find(wanted[number].begin(), wanted[number].end(), maker[output]) == wanted[number].end())
        wanted[number].push_back(maker[output]);
    }
    std::vector<size_t> home(plan_.values.size(), SIZE_MAX);  // the segment that hands the value out
    for (auto& [number, steps] : wanted) {
      std::set<size_t> all(steps.begin(), steps.end());
      std::vector<size_t> pending = steps;
      while (!pending.empty()) {
        const Step& step = plan_.steps[pending.back()];
        pending.pop_back();
        for (const size_t value : step.inputs)
          if (const size_t by = maker[value]; by != kNobody && plan_.steps[by].anywhere && all.insert(by).second)
            pending.push_back(by);
      }
      Segment& segment = segments[number];
      segment.on_host = number % 2 == 0;
      segment.steps.assign(all.begin(), all.end());
      for (const size_t i : steps)
        for (const size_t value : plan_.steps[i].outputs) home[value] = number;
    }
    std::map<size_t, std::set<size_t>> outputs;
    for (auto& [number, segment] : segments) {
      std::set<size_t> made, needed;
      for (const size_t i : segment.steps) made.insert(plan_.steps[i].outputs.begin(), plan_.steps[i].outputs.end());
      for (const size_t i : segment.steps)
        for (const size_t value : plan_.steps[i].inputs)
          if (!made.contains(value)) needed.insert(value);
      segment.inputs.assign(needed.begin(), needed.end());
      for (const size_t value : needed)
        if (home[value] != SIZE_MAX) outputs[home[value]].insert(value);
    }
    for (const size_t output : plan_.outputs) outputs[home[output]].insert(output);
    for (auto& [number, segment] : segments) {
      segment.outputs.assign(outputs[number].begin(), outputs[number].end());
      plan_.segments.push_back(std::move(segment));
    }
  }

  static constexpr const char* kOnDevice = "on the device";
  static constexpr size_t kNobody = SIZE_MAX;
  synDeviceType device_;
  bool int64_;
  Plan plan_;
  std::vector<bool> wide_;      // int64 values that int32 may not hold
  std::vector<bool> constant_;  // values that are made anywhere
};

}  // namespace

Plan make_plan(const transom_graph& graph, synDeviceType device, bool int64) {
  return Planner(graph, device, int64).make();
}

}  // namespace transom::hpu
