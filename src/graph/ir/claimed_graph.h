// SPDX-License-Identifier: Apache-2.0
// A graph that one thread is about to walk, to compile or to compute, while others may hold tensors of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace transom {

// The nodes of lazy tensors change once: when they are computed they get their storages and let go of their inputs.
// Only the thread that has claimed a node does that, and nobody walks over nodes without the lock that claims are made
// under. So a claimed graph stays as it is until its owner is done, and a node that two threads want is computed once.
//
// What may be donated follows from it. Another thread reaches a leaf of the graph by a handle of its own or by a node
// outside of the graph, and both show in the leaf's reference count; or by a node of the graph, where it waits.
class ClaimedGraph {
 public:
  // `make` walks over nodes: it is called under the lock, and again after a wait for another thread that has claimed a
  // node of its graph.
  explicit ClaimedGraph(const std::function<Graph()>& make);
  ~ClaimedGraph();
  ClaimedGraph(const ClaimedGraph&) = delete;
  ClaimedGraph& operator=(const ClaimedGraph&) = delete;

  const Graph& graph() const { return graph_; }

  // The outputs are computed: gives them their storages. Nodes that need their inputs no more let go of them.
  void finish(std::span<const std::shared_ptr<Storage>> results);

 private:
  Graph graph_;
};

// The node, which is computed, lets go of its inputs; nothing where it saves them for gradients. Returns them, so that
// they end without the lock. Call note_released_uses() before.
std::vector<Tensor> release_inputs(Node& node);

// Notes in all nodes of the graph and in its inputs which of `outputs` are computed from them and will release their
// inputs, so that a gradient by them is refused and not zero.
void note_released_uses(const Graph& graph, std::span<const Tensor> outputs);
// The same of the arguments of a compiled function, whose results are made behind this call and know no inputs.
void note_released_uses(std::span<const Tensor> arguments);

}  // namespace transom
