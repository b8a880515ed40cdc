// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/claimed_graph.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace transom {
namespace {

struct Claim {
  const Graph* graph;
  uint64_t number;
  std::unordered_set<const Node*> nodes = {};  // filled when another thread asks for the first time

  bool holds_any_of(const Graph& other) {
    if (nodes.empty())
      for (const std::shared_ptr<Node>& node : graph->nodes) nodes.insert(node.get());
    return std::any_of(other.nodes.begin(), other.nodes.end(),
                       [&](const std::shared_ptr<Node>& node) { return nodes.contains(node.get()); });
  }
};

struct Claims {
  std::mutex mutex;
  std::condition_variable released;
  std::list<Claim> held;
  uint64_t last_number = 0;

  bool holds(uint64_t number) const {
    return std::any_of(held.begin(), held.end(), [&](const Claim& claim) { return claim.number == number; });
  }
};

Claims& claims() {
  static Claims& instance = *new Claims;
  return instance;
}

}  // namespace

ClaimedGraph::ClaimedGraph(const std::function<Graph()>& make) {
  Claims& all = claims();
  std::unique_lock lock(all.mutex);
  while (true) {
    graph_ = make();
    const auto other =
        std::find_if(all.held.begin(), all.held.end(), [&](Claim& claim) { return claim.holds_any_of(graph_); });
    if (other == all.held.end()) break;
    const uint64_t awaited = other->number;
    graph_ = {};
    all.released.wait(lock, [&] { return !all.holds(awaited); });
  }
  if (!graph_.nodes.empty()) all.held.push_back({&graph_, ++all.last_number});
}

ClaimedGraph::~ClaimedGraph() {
  Claims& all = claims();
  {
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.held, [&](const Claim& claim) { return claim.graph == &graph_; });
  }
  all.released.notify_all();
}

void ClaimedGraph::finish(std::span<const std::shared_ptr<Storage>> results) {
  std::vector<Tensor> unneeded;  // released without the lock
  const std::lock_guard lock(claims().mutex);
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    graph_.outputs[i].node()->give_storage(graph_.outputs[i].output(), results[i]);
  note_released_uses(graph_, graph_.outputs);
  for (const Tensor& output : graph_.outputs) {
    std::vector<Tensor> inputs = release_inputs(*output.node());
    std::move(inputs.begin(), inputs.end(), std::back_inserter(unneeded));
  }
}

std::vector<Tensor> release_inputs(Node& node) {
  if (node.saves_for_backward) return {};
  node.released |= !node.inputs.empty();
  return std::exchange(node.inputs, {});
}

namespace {

// Integers, bool and detached values carry no gradient.
bool carries_gradient(const Node& node) {
  return !node.operation->stops_gradient &&
         std::any_of(node.types.begin(), node.types.end(), [](const Type& type) { return is_floating(type.dtype); });
}

}  // namespace

void note_released_uses(const Graph& graph, std::span<const Tensor> outputs) {
  std::unordered_set<const Node*> released;
  for (const Tensor& output : outputs)
    if (!output.node()->saves_for_backward) released.insert(output.node().get());
  for (auto place = graph.nodes.rbegin(); place != graph.nodes.rend(); ++place) {
    const Node& node = **place;
    if (!carries_gradient(node)) continue;
    const uint64_t use = released.contains(&node) ? node.sequence : node.released_use;
    if (use == UINT64_MAX) continue;
    for (const Tensor& input : node.inputs)
      if (!(node.without_gradients && input.requires_grad()))
        input.node()->released_use = std::min(input.node()->released_use, use);
  }
}

void note_released_uses(std::span<const Tensor> arguments) {
  if (!gradients_enabled()) return;
  const uint64_t now = make_input({}).node()->sequence;
  const std::lock_guard lock(claims().mutex);
  for (const Tensor& argument : arguments) argument.node()->released_use = std::min(argument.node()->released_use, now);
}

}  // namespace transom
