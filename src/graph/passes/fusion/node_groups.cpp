// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/fusion/node_groups.h"

#include <algorithm>

#include "graph/passes/passes.h"

namespace transom {

NodeGroups::NodeGroups(const Graph& graph) {
  size_t position = 0;
  for (const std::shared_ptr<Node>& node : graph.nodes) position_.emplace(node.get(), position++);
}

size_t NodeGroups::of(const Node& node) const {
  const auto found = place_.find(&node);
  return found == place_.end() ? kNone : found->second;
}

std::vector<size_t> NodeGroups::joinable(
    std::vector<size_t> open, size_t limit,
    const std::function<bool(size_t group, const std::vector<size_t>& taken)>& fits) const {
  std::sort(open.begin(), open.end(), std::greater<>());
  open.erase(std::unique(open.begin(), open.end()), open.end());
  std::vector<size_t> taken;
  size_t members = 1;
  for (const size_t group : open) {
    if (members + groups_[group].members.size() > limit || !fits(group, taken)) continue;
    members += groups_[group].members.size();
    taken.push_back(group);
  }
  return taken;
}

void NodeGroups::join(const std::shared_ptr<Node>& node, const std::vector<size_t>& groups) {
  if (groups.empty()) groups_.emplace_back();
  const size_t target = groups.empty() ? groups_.size() - 1 : groups[0];
  std::vector<std::shared_ptr<Node>>& members = groups_[target].members;
  for (size_t i = 1; i < groups.size(); ++i) {
    for (const std::shared_ptr<Node>& member : groups_[groups[i]].members) {
      place_[member.get()] = target;
      members.push_back(member);
    }
    groups_[groups[i]] = {{}, true};
  }
  if (groups.size() > 1)
    std::sort(members.begin(), members.end(),
              [&](const auto& a, const auto& b) { return position_.at(a.get()) < position_.at(b.get()); });
  members.push_back(node);
  place_.emplace(node.get(), target);
}

Graph replace_groups(const Graph& graph, const std::function<const NodeGroup*(const Node&)>& group_of,
                     const std::function<std::vector<Tensor>(const NodeGroup& group, const std::vector<Tensor>& needed,
                                                             const TensorMap<Tensor>& replaced)>& fuse) {
  TensorSet needed(graph.outputs.begin(), graph.outputs.end());  // read outside of the group that makes it
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const NodeGroup* reader = group_of(*node);
    for (const Tensor& input : node->inputs)
      if (!reader || group_of(*input.node()) != reader) needed.insert(input);
  }

  TensorMap<Tensor> replaced;
  const auto replacement = [&](const Tensor& tensor) {
    const auto found = replaced.find(tensor);
    return found == replaced.end() ? tensor : found->second;
  };
  Graph result{graph.inputs, {}, {}};
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const NodeGroup* group = group_of(*node);
    if (group && group->members.back() != node) continue;
    const UseScope scope(node->scope);
    if (group) {
      std::vector<Tensor> outputs;
      for (const std::shared_ptr<Node>& member : group->members)
        for (const Tensor& output : outputs_of(member))
          if (needed.contains(output)) outputs.push_back(output);
      if (outputs.empty()) continue;
      const std::vector<Tensor> fused = fuse(*group, outputs, replaced);
      for (size_t i = 0; i < outputs.size(); ++i) replaced.emplace(outputs[i], fused[i]);
      result.nodes.push_back(fused[0].node());
      continue;
    }
    std::vector<Tensor> inputs;
    bool same = true;
    for (const Tensor& input : node->inputs) {
      inputs.push_back(replacement(input));
      same &= inputs.back().same_as(input);
    }
    const auto copy = same ? node : make_node(*node->operation, std::move(inputs), node->attributes, node->region);
    for (size_t i = 0; i < node->types.size(); ++i)
      replaced.emplace(Tensor(node, static_cast<int>(i)), Tensor(copy, static_cast<int>(i)));
    result.nodes.push_back(copy);
  }
  for (const Tensor& output : graph.outputs) result.outputs.push_back(replacement(output));
  return rewrite(result, [](const Node&, const std::vector<Tensor>&) { return std::vector<Tensor>(); });
}

}  // namespace transom
