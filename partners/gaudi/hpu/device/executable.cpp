// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/executable.h"

#include <algorithm>
#include <set>

#include "hpu/device/host.h"
#include "hpu/device/launch.h"
#include "hpu/lowering/lowering.h"
#include "hpu/recipe/recipe_cache.h"

using namespace transom::hpu;

namespace {

// An int64 in memory is two words; kernels see the low one, whose high one says no more than its sign. (What does not
// fit was refused before the launch.)
Value low_words(Emitter& emit, const Value& words, const Shape& shape) {
  const int64_t count = words.shape[0];
  return emit.reshape(emit.slice(words, {0, 0}, {count, 1}, {1, 1}), shape);
}

Value with_high_words(Emitter& emit, const Value& x) {
  const int64_t count = product(x.shape);
  const Value low = emit.reshape(x, {count, 1});
  const Value negative = emit.compare("less_fwd", low, emit.number(Element::kI32, 0, 2));
  const Value high = emit.where(negative, emit.number(Element::kI32, -1, 2), emit.number(Element::kI32, 0, 2));
  return emit.concatenate({low, high}, 1);
}

void warn_once(const std::string& op, const std::string& text) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (said.insert(op).second) log(TRANSOM_LOG_WARNING, text);
}

}  // namespace

transom_executable::transom_executable(transom_device* device, const transom_graph& graph)
    : DeviceHandle(device), plan_(make_plan(graph, device->type(), device->options().int64)) {
  for (size_t i = 0; i < plan_.inputs.size(); ++i) input_of_[plan_.inputs[i]] = i;
  for (size_t o = 0; o < plan_.outputs.size(); ++o) output_of_[plan_.outputs[o]] = o;
  for (const Segment& segment : plan_.segments) {
    if (segment.on_host) {
      describe_segment(segment, "host");
      device_segments_.emplace_back();
    } else {
      device_segments_.push_back(lower(segment));
    }
  }
  warn_about_host_work();
}

void transom_executable::warn_about_host_work() const {
  std::map<std::string, std::pair<size_t, std::string>> counts;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    if (!step.on_host || step.anywhere || plan_.host_reasons[i].empty()) continue;
    auto& [count, reason] = counts[step.node.op()];
    ++count;
    reason = plan_.host_reasons[i];
  }
  for (const auto& [op, found] : counts)
    warn_once(op, fmt::format("'{}' runs on the host ({}): {} of the {} nodes of this graph", op, found.second,
                              found.first, plan_.steps.size()));
}

void transom_executable::describe_segment(const Segment& segment, const std::string& how) {
  for (const size_t i : segment.steps) {
    const Step& step = plan_.steps[i];
    std::string inputs, outputs;
    for (const Type& type : step.node.inputs()) inputs += (inputs.empty() ? "" : " ") + to_string(type);
    for (const Type& type : step.node.outputs()) outputs += (outputs.empty() ? "" : " ") + to_string(type);
    description_ +=
        fmt::format("{:>5}  {:<28}  {:<36}  {} -> {}\n", step.source, step.node.place(), how, inputs, outputs);
  }
}

transom_executable::DeviceSegment transom_executable::lower(const Segment& segment) {
  const bool words = !device->options().int64;
  Emitter emit(device->type(), device->options().int64);
  DeviceSegment made;
  made.first_source = plan_.steps[segment.steps[0]].source;
  made.name =
      fmt::format("recipe of {} nodes from {}", segment.steps.size(), plan_.steps[segment.steps[0]].node.place());
  std::map<size_t, Value> values;
  std::set<int> taken;  // tensors that memory is bound to
  const auto bind = [&](auto kind, size_t index, size_t value, int tensor, const char* letter) {
    emit.graph.tensors[static_cast<size_t>(tensor)].name = fmt::format("{}{}", letter, index);
    made.bound.push_back({kind, index, value, tensor});
    taken.insert(tensor);
  };
  for (const size_t value : segment.inputs) {
    const Type& type = plan_.values[value];
    const auto graph_input = input_of_.find(value);
    if (graph_input == input_of_.end()) {
      values[value] = emit.tensor(emit.element_of(type.dtype), Emitter::canonical(type.shape));
      bind(Bound::kBetween, value, value, values[value].tensor, "between");
    } else if (words && type.dtype == TRANSOM_INT64) {
      const Value both = emit.tensor(Element::kI32, {type.count(), 2});
      bind(Bound::kInput, graph_input->second, value, both.tensor, "input");
      values[value] = low_words(emit, both, Emitter::canonical(type.shape));
    } else {
      values[value] = emit.tensor(emit.element_of(type.dtype), Emitter::canonical(type.shape));
      bind(Bound::kInput, graph_input->second, value, values[value].tensor, "input");
    }
  }
  for (const size_t i : segment.steps) {
    const Step& step = plan_.steps[i];
    Values inputs;
    for (const size_t value : step.inputs) inputs.push_back(values.at(value));
    const size_t before = emit.graph.nodes.size();
    const Values outputs = lowering_table().at(step.node.op()).lower(step.node, emit, inputs);
    std::string guids;
    for (size_t n = before; n < emit.graph.nodes.size(); ++n)
      guids += (guids.empty() ? "" : " ") + emit.graph.nodes[n].guid;
    describe_segment({false, {i}, {}, {}}, guids.empty() ? "nothing to do" : guids);
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      if (outputs[o].shape != Emitter::canonical(plan_.values[step.outputs[o]].shape))
        fail(TRANSOM_INTERNAL, "node {}, {}: its nodes make another shape", step.source, step.node.place());
      values[step.outputs[o]] = outputs[o];
    }
  }
  const auto hand_out = [&](auto kind, size_t index, size_t value, Value x, const char* letter) {
    const bool is_constant = !emit.graph.tensors[static_cast<size_t>(x.tensor)].constant.empty();
    if (taken.contains(x.tensor) || is_constant) x = emit.node("memcpy", {x}, x.element, x.shape);
    bind(kind, index, value, x.tensor, letter);
  };
  for (const size_t value : segment.outputs) {
    const bool read_elsewhere = std::any_of(plan_.segments.begin(), plan_.segments.end(), [&](const Segment& other) {
      return std::find(other.inputs.begin(), other.inputs.end(), value) != other.inputs.end();
    });
    if (const auto output = output_of_.find(value); output != output_of_.end()) {
      const bool widen = words && plan_.values[value].dtype == TRANSOM_INT64;
      hand_out(Bound::kOutput, output->second, value,
               widen ? with_high_words(emit, values.at(value)) : values.at(value), "output");
    }
    if (read_elsewhere) hand_out(Bound::kBetween, value, value, values.at(value), "between");
  }
  // What no node reads, as the starts of a window that is the whole, is not bound.
  std::set<int> used;
  for (const NodeSpec& node : emit.graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    used.insert(node.outputs.begin(), node.outputs.end());
  }
  std::erase_if(made.bound, [&](const Bound& bound) {
    if (used.contains(bound.tensor)) return false;
    emit.graph.tensors[static_cast<size_t>(bound.tensor)].name.clear();
    return true;
  });
  // Launches list the persistent tensors in the order of the graph's tensors.
  std::sort(made.bound.begin(), made.bound.end(), [](const Bound& a, const Bound& b) { return a.tensor < b.tensor; });
  made.graph = std::move(emit.graph);
  return made;
}

// Whether a recipe may write the output where the input lies: nobody may read the input after that.
bool transom_executable::may_share(size_t output, size_t input) const {
  const auto find = [&](const DeviceSegment& segment, auto kind, size_t index) -> const Bound* {
    for (const Bound& bound : segment.bound)
      if (bound.kind == kind && bound.index == index) return &bound;
    return nullptr;
  };
  const size_t value = plan_.inputs[input];
  bool written = false;
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    const Segment& segment = plan_.segments[s];
    const bool reads = std::find(segment.inputs.begin(), segment.inputs.end(), value) != segment.inputs.end();
    if (written && reads) return false;
    if (std::find(segment.outputs.begin(), segment.outputs.end(), plan_.outputs[output]) == segment.outputs.end())
      continue;
    written = true;
    if (!reads || segment.on_host) continue;  // the host reads all before it writes
    const DeviceSegment& lowered = device_segments_[s];
    const Bound *to = find(lowered, Bound::kOutput, output), *from = find(lowered, Bound::kInput, input);
    if (!to || !from) return false;
    const TensorSpec &target = lowered.graph.tensors[static_cast<size_t>(to->tensor)],
                     &source = lowered.graph.tensors[static_cast<size_t>(from->tensor)];
    if (target.dtype != source.dtype) return false;
    bool made = false;
    for (const NodeSpec& node : lowered.graph.nodes) {
      const bool reads_here = std::find(node.inputs.begin(), node.inputs.end(), from->tensor) != node.inputs.end();
      const bool writes = std::find(node.outputs.begin(), node.outputs.end(), to->tensor) != node.outputs.end();
      if (reads_here && (made || (writes && (!node.elementwise || target.sizes != source.sizes)))) return false;
      made = made || writes;
    }
  }
  return true;
}

const transom_executable::Variant& transom_executable::variant_for(const Aliases& wanted) {
  const std::lock_guard lock(mutex_);
  if (const auto found = variants_.find(wanted); found != variants_.end()) return found->second;
  Variant variant{wanted, {}};
  for (size_t o = 0; o < wanted.size(); ++o)
    if (wanted[o] >= 0 && !may_share(o, static_cast<size_t>(wanted[o]))) variant.aliases[o] = kApart;
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    if (plan_.segments[s].on_host) {
      variant.recipes.push_back(nullptr);
      continue;
    }
    const DeviceSegment& segment = device_segments_[s];
    RecipeGraph graph = segment.graph;
    for (const Bound& bound : segment.bound) {
      if (bound.kind != Bound::kOutput || variant.aliases[bound.index] < 0) continue;
      for (const Bound& other : segment.bound)
        if (other.kind == Bound::kInput && other.index == static_cast<size_t>(variant.aliases[bound.index]))
          graph.tensors[static_cast<size_t>(bound.tensor)].same_section = other.tensor;
    }
    variant.recipes.push_back(device->recipes().find(graph, segment.name));
  }
  return variants_.emplace(wanted, std::move(variant)).first->second;
}

uint64_t transom_executable::temporary_bytes() {
  bool launched = false;
  {
    const std::lock_guard lock(mutex_);
    launched = !variants_.empty();
  }
  if (!launched) variant_for(Aliases(plan_.outputs.size(), kOwn));
  uint64_t between = 0;
  std::set<size_t> values;
  for (const DeviceSegment& segment : device_segments_)
    for (const Bound& bound : segment.bound)
      if (bound.kind == Bound::kBetween && values.insert(bound.value).second)
        between += DeviceMemory::rounded(plan_.values[bound.value].bytes());
  const std::lock_guard lock(mutex_);
  uint64_t most = 0;
  for (const auto& [aliases, variant] : variants_) {
    uint64_t workspace = 0, apart = 0;
    for (const auto& recipe : variant.recipes)
      if (recipe && recipe->workspace_bytes() > 0)
        workspace = std::max<uint64_t>(workspace, DeviceMemory::rounded(recipe->workspace_bytes()));
    for (size_t o = 0; o < variant.aliases.size(); ++o)
      if (variant.aliases[o] == kApart) apart += DeviceMemory::rounded(plan_.values[plan_.outputs[o]].bytes());
    most = std::max(most, workspace + apart);
  }
  return most + between;
}
