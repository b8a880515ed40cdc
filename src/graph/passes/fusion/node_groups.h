// SPDX-License-Identifier: Apache-2.0
// Groups of nodes that become one node each. A group is computed where its last member stands. That is sound while
// every reader outside the group stands behind that place; so a group is closed, and takes no more members, once a node
// outside it reads from it. Groups that are still open become one when a node reads from several.
#pragma once

#include <functional>
#include <unordered_map>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom {

struct NodeGroup {
  std::vector<std::shared_ptr<Node>> members;  // in the graph's order
  bool closed = false;
};

class NodeGroups {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  explicit NodeGroups(const Graph& graph);

  size_t size() const { return groups_.size(); }
  const NodeGroup& operator[](size_t index) const { return groups_[index]; }
  size_t of(const Node& node) const;  // kNone if it is in no group
  void close(size_t index) { groups_[index].closed = true; }

  // Those of `open` that a node can join at once, without more than `limit` members and as far as `fits` agrees, which
  // sees the ones already taken. The last group comes first, since what was just computed is the likelier to be worth
  // keeping.
  std::vector<size_t> joinable(std::vector<size_t> open, size_t limit,
                               const std::function<bool(size_t group, const std::vector<size_t>& taken)>& fits) const;

  // Puts the node and the groups into the first of them; into a new one if there are none.
  void join(const std::shared_ptr<Node>& node, const std::vector<size_t>& groups);

 private:
  std::vector<NodeGroup> groups_;
  std::unordered_map<const Node*, size_t> place_, position_;
};

// The graph with one node in the place of each group. `group_of`: the group that a node belongs to, or null. `fuse`: a
// node whose outputs are the group's values `needed`; inputs are to be looked up in `replaced`.
Graph replace_groups(const Graph& graph, const std::function<const NodeGroup*(const Node&)>& group_of,
                     const std::function<std::vector<Tensor>(const NodeGroup& group, const std::vector<Tensor>& needed,
                                                             const TensorMap<Tensor>& replaced)>& fuse);

}  // namespace transom
