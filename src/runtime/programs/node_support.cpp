// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/node_support.h"

#include "base/error.h"
#include "base/terminal/log.h"
#include "graph/passes/partition.h"
#include "graph/passes/place_on_host.h"
#include "runtime/device/communicator.h"
#include "runtime/programs/device_program.h"
#include "runtime/programs/graph_view.h"

namespace transom {
namespace {

// The node alone, on leaves of its own.
Graph graph_of(const Node& node) {
  const CompilerScope compiler;
  Graph graph;
  for (const Tensor& input : node.inputs) graph.inputs.push_back(make_input(input.type()));
  const auto copy = make_node(*node.operation, graph.inputs, node.attributes, node.region);
  graph.nodes = {copy};
  graph.outputs = outputs_of(copy);
  return graph;
}

// What the plugin says of the node; true where it says nothing.
bool is_answered_yes(Device& device, const Node& node) {
  const auto asks = device.table().supports;
  if (!asks) return true;
  const Graph alone = graph_of(node);
  const GraphView view(alone, nullptr, {});
  return asks(device.handle(), &view.graph()) != 0;
}

// What the plugin said, without whose words they are.
std::string reason_of(const Error& refusal) {
  constexpr std::string_view kMark = "not supported: ";
  const std::string text = refusal.what();
  const size_t mark = text.find(kMark);
  return mark == text.npos ? text : text.substr(mark + kMark.size());
}

// A collective of several processes is run between the programs of a device that is one of several.
bool joins_processes(const Device& device, const Node& node) {
  const Communicator* communicator = device.communicator();
  if (!communicator || !node.attributes.has("group")) return communicator != nullptr;
  const std::vector<int64_t>& group = node.attributes.get_ints("group");
  if (group.size() > 1) return true;
  if (group.size() != 1 || group[0] != communicator->rank())
    fail("{}: expected a group with this rank, {}, in it, found [{}]", *node.scope, communicator->rank(),
         fmt::join(group, ", "));
  return false;
}

}  // namespace

NodeSupport& NodeSupport::of(const Device& device) {
  static std::mutex mutex;
  // Never destroyed: programs of other statics may ask at the end of the process.
  static auto& all = *new std::map<std::string, NodeSupport>;
  const std::lock_guard lock(mutex);
  return all[device.name() + " " + device.plugin_file().string()];
}

bool NodeSupport::supports(Device& device, const Node& node) {
  if (is_collective(node)) return joins_processes(device, node);
  std::vector<transom_value> values;
  for (const Tensor& input : node.inputs)
    values.push_back({.dtype = static_cast<int32_t>(input.dtype()),
                      .rank = static_cast<int32_t>(input.rank()),
                      .shape = input.shape().data(),
                      .arena_offset = -1});
  const std::vector<transom_attribute> attributes = attribute_view(node.attributes);
  const std::string name(node.operation->name);
  if (!device.table().claims(device.handle(), name.c_str(), values.data(), values.size(), attributes.data(),
                             attributes.size()))
    return false;
  // A region is asked for by its record alone, before there is one.
  if (node.types.empty()) {
    const std::lock_guard lock(mutex_);
    return !regions_.contains(node.operation->name);
  }
  // What is refused whole may run in parts.
  return !is_refused(node) && is_answered_yes(device, node);
}

bool NodeSupport::runs(Device& device, const Node& node) {
  if (is_refused(node)) {
    say_once(device, node, "");
    return false;
  }
  if (is_answered_yes(device, node)) return true;
  say_once(device, node, "");
  return false;
}

bool NodeSupport::is_refused(const Node& node) const {
  {
    const std::lock_guard lock(mutex_);
    if (nodes_.empty()) return false;
  }
  const GraphKey key = structural_key(graph_of(node));
  const std::lock_guard lock(mutex_);
  return nodes_.contains(key);
}

size_t NodeSupport::refused() const {
  const std::lock_guard lock(mutex_);
  return nodes_.size() + regions_.size();
}

bool NodeSupport::refuse(const Device& device, const Node& node, std::string_view reason) {
  const GraphKey key = structural_key(graph_of(node));
  {
    const std::lock_guard lock(mutex_);
    if (!nodes_.insert(key).second) return false;
  }
  say_once(device, node, reason);
  return true;
}

void NodeSupport::say_once(const Device& device, const Node& node, std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!said_.insert(std::string(node.operation->name)).second) return;
  }
  std::string types;
  for (const Tensor& input : node.inputs) types += (types.empty() ? "" : ", ") + to_string(input.type());
  log(LogLevel::kWarning,
      fmt::format("{}: {} ({}) runs on the host, which takes copies and time: the device does not support it{}{}",
                  device.name(), node.operation->name, types, reason.empty() ? "" : ": ", reason));
}

bool NodeSupport::find_refused(const std::shared_ptr<Device>& device, const Graph& graph) {
  bool found = false;
  std::unordered_set<GraphKey, GraphKeyHash> tried;
  std::vector<const Node*> regions;
  const auto is_taken = [&](const Node& node) {
    const Graph alone = graph_of(node);
    if (!tried.insert(structural_key(alone)).second) return true;
    try {
      const std::vector<bool> none(alone.inputs.size());
      const DeviceProgram program(device, alone, plan_memory(alone, none), none);
      return true;
    } catch (const NotSupported& refusal) {
      if (node.region) return false;
      found |= refuse(*device, node, reason_of(refusal));
      return true;
    }
  };
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (is_collective(*node) || is_on_host(*node) || is_taken(*node)) continue;
    // One of the nodes of the region is missing, or the region as such.
    bool explained = false;
    std::vector<const Graph*> inside{node->region.get()};
    while (!inside.empty()) {
      const Graph& region = *inside.back();
      inside.pop_back();
      for (const std::shared_ptr<Node>& inner : region.nodes) {
        if (inner->region) inside.push_back(inner->region.get());
        else explained |= !is_taken(*inner) || is_refused(*inner);
      }
    }
    if (explained) continue;
    const std::lock_guard lock(mutex_);
    found |= regions_.insert(std::string(node->operation->name)).second;
  }
  return found;
}

CompileTarget model_of(const std::shared_ptr<Device>& device, bool host_fallback) {
  NodeSupport& support = NodeSupport::of(*device);
  Device* opened = device.get();
  CompileTarget model{.supports = [&support, opened](const Node& node) { return support.supports(*opened, node); },
                      .runs = nullptr};
  // Where nothing is known to be missing, no node is asked.
  if (host_fallback && (device->table().supports || support.refused() > 0))
    model.runs = [&support, opened](const Node& node) { return support.runs(*opened, node); };
  return model;
}

}  // namespace transom
