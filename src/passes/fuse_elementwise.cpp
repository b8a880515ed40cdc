// SPDX-License-Identifier: Apache-2.0
// Joins element-wise nodes of one shape into fusions, each one pass over memory. Broadcasts of values and constants go
// into the fusions that read them.
//
// A group is carried out where its last member stands. That is sound while every reader outside the group stands behind
// that place; so a group is closed, and takes no more members, once a node outside it reads from it. Groups that are
// still open become one when a node reads from several.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "ir/tensor_map.h"
#include "passes/passes.h"

namespace transom {
namespace {

constexpr size_t kMaximumMembers = 64;

struct Group {
  std::vector<std::shared_ptr<Node>> members;
  bool closed = false;
};

bool is_member(const Node& node) { return node.operation->elementwise || node.operation->name == "random_bits"; }

// The sum over all elements, taken while they pass by. It joins those who make them, but makes no group of its own.
bool is_total(const Node& node) {
  return node.operation->name == "reduce_sum" && node.types[0].dtype == DType::kFloat32 &&
         elements(node.types[0].shape) == 1 && node.inputs[0].size() > 1;
}

// Constants, and broadcasts and reshapes of constants, cost nothing inside a fusion.
bool is_constant(const Node& node) {
  const std::string_view name = node.operation->name;
  if (name == "constant") return true;
  return (name == "broadcast" || name == "reshape") && is_constant(*node.inputs[0].node());
}
// A cast to a wider type of what no fusion makes: reading the narrow values again costs less than keeping the wide
// ones.
bool is_widening(const Node& node) {
  if (node.operation->name != "cast") return false;
  const Tensor& input = node.inputs[0];
  return is_floating(input.dtype()) && is_floating(node.types[0].dtype) &&
         size_of(input.dtype()) < size_of(node.types[0].dtype) && !is_member(*input.node());
}

// What fusions read through: each reader takes its own copy.
class Absorbed {
 public:
  explicit Absorbed(const Graph& graph) {
    for (const Tensor& output : graph.outputs) kept_.insert(output.node().get());
    for (const std::shared_ptr<Node>& node : graph.nodes)
      for (const Tensor& input : node->inputs)
        if (!is_member(*node)) kept_.insert(input.node().get());
  }
  bool operator()(const Node& node) const {
    return node.operation->name == "broadcast" || is_constant(node) || (is_widening(node) && !kept_.contains(&node));
  }

 private:
  std::unordered_set<const Node*> kept_;  // read by others than element-wise nodes
};
// An iota of as many elements as the fusion is computed inside as well.
bool is_generated(const Node& node, int64_t count) {
  return node.operation->name == "iota" && elements(node.types[0].shape) == count;
}

class Groups {
 public:
  Groups(const Graph& graph, const Absorbed& is_absorbed) : absorbed_(is_absorbed) {
    size_t position = 0;
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      position_.emplace(node.get(), position++);
      if (absorbed_(*node)) continue;
      const std::vector<size_t> joined = is_member(*node) || is_total(*node) ? joinable(*node) : std::vector<size_t>();
      for (const Tensor& input : node->inputs) close_unless(input, joined);
      if (is_member(*node) || !joined.empty()) join(node, joined);
    }
  }

  // The group of a node, or null.
  const Group* of(const Node& node) const {
    const auto found = place_.find(&node);
    return found == place_.end() ? nullptr : &groups_[found->second];
  }

 private:
  // The groups that the node can belong to, and through it to each other: nobody else reads from them yet. Later ones
  // come first, since what was just computed is the likelier to be worth keeping.
  std::vector<size_t> joinable(const Node& node) const {
    const Shape& shape = is_total(node) ? node.inputs[0].shape() : node.types[0].shape;
    std::vector<size_t> open;
    for (const Tensor& input : node.inputs) {
      const auto found = place_.find(input.node().get());
      if (found == place_.end()) continue;
      const Group& group = groups_[found->second];
      if (!group.closed && group.members[0]->types[0].shape == shape) open.push_back(found->second);
    }
    std::sort(open.begin(), open.end(), std::greater<>());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    std::vector<size_t> joined;
    size_t members = 1;
    for (const size_t group : open) {
      if (members + groups_[group].members.size() > kMaximumMembers || read_through_broadcast(node, group)) continue;
      members += groups_[group].members.size();
      joined.push_back(group);
    }
    return joined;
  }

  // Whether the node reads the group through what fusions absorb: then the group's value must be complete before it.
  bool read_through_broadcast(const Node& node, size_t group) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Tensor& input) {
      if (!absorbed_(*input.node())) return false;
      const Node& source = *input.node();
      return std::any_of(source.inputs.begin(), source.inputs.end(),
                         [&](const Tensor& x) {
                           const auto found = place_.find(x.node().get());
                           return found != place_.end() && found->second == group;
                         }) ||
             read_through_broadcast(source, group);
    });
  }

  // Closes the groups that `tensor` is read from, directly or through what fusions absorb, but for those in `except`.
  void close_unless(const Tensor& tensor, const std::vector<size_t>& except) {
    const auto found = place_.find(tensor.node().get());
    if (found != place_.end()) {
      if (std::find(except.begin(), except.end(), found->second) == except.end()) groups_[found->second].closed = true;
    } else if (absorbed_(*tensor.node())) {
      for (const Tensor& input : tensor.node()->inputs) close_unless(input, {});
    }
  }

  // Puts the node and the groups into the first of them, members in the graph's order.
  void join(const std::shared_ptr<Node>& node, const std::vector<size_t>& groups) {
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

  const Absorbed& absorbed_;
  std::vector<Group> groups_;
  std::unordered_map<const Node*, size_t> place_, position_;
};

// Builds one fusion: the region, its inputs, and which of its values are needed outside.
class FusionBuilder {
 public:
  FusionBuilder(const Group& group, const Absorbed& is_absorbed, const TensorMap<Tensor>& replaced)
      : absorbed_(is_absorbed), replaced_(replaced), count_(elements(group.members[0]->types[0].shape)) {
    for (const std::shared_ptr<Node>& node : group.members) {
      std::vector<Tensor> inputs;
      for (const Tensor& input : node->inputs) inputs.push_back(inside(input));
      const auto copy = make_node(*node->operation, std::move(inputs), node->attributes);
      region_.nodes.push_back(copy);
      inside_.emplace(Tensor(node, 0), Tensor(copy, 0));
    }
  }

  // A fusion whose outputs are the region's values for `needed`.
  std::vector<Tensor> finish(const std::vector<Tensor>& needed) {
    for (const Tensor& tensor : needed) region_.outputs.push_back(inside_.at(tensor));
    static const Operation& fusion = find_operation("fusion");
    return outputs_of(make_node(fusion, outside_inputs_, {}, std::make_shared<Graph>(std::move(region_))));
  }

 private:
  Tensor inside(const Tensor& tensor) {
    if (const auto found = inside_.find(tensor); found != inside_.end()) return found->second;
    Tensor result;
    if (absorbed_(*tensor.node()) || is_generated(*tensor.node(), count_)) {
      const Node& node = *tensor.node();
      std::vector<Tensor> inputs;
      for (const Tensor& input : node.inputs) inputs.push_back(inside(input));
      const auto copy = make_node(*node.operation, std::move(inputs), node.attributes);
      region_.nodes.push_back(copy);
      result = Tensor(copy, 0);
    } else {
      const auto found = replaced_.find(tensor);
      outside_inputs_.push_back(found == replaced_.end() ? tensor : found->second);
      result = make_input(tensor.type());
      region_.inputs.push_back(result);
    }
    inside_.emplace(tensor, result);
    return result;
  }

  const Absorbed& absorbed_;
  const TensorMap<Tensor>& replaced_;
  int64_t count_;
  Graph region_;
  std::vector<Tensor> outside_inputs_;
  TensorMap<Tensor> inside_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph) {
  const CompilerScope compiler;
  const Absorbed is_absorbed(graph);
  const Groups groups(graph, is_absorbed);

  // Values of a group that are read outside it, also through what other fusions absorb.
  TensorSet needed(graph.outputs.begin(), graph.outputs.end());
  for (const std::shared_ptr<Node>& node : graph.nodes)
    for (const Tensor& input : node->inputs)
      if (groups.of(*input.node()) != groups.of(*node) || !groups.of(*node)) needed.insert(input);

  TensorMap<Tensor> replaced;
  Graph result{graph.inputs, {}, {}};
  const auto replacement = [&](const Tensor& tensor) {
    const auto found = replaced.find(tensor);
    return found == replaced.end() ? tensor : found->second;
  };
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const Group* group = groups.of(*node);
    if (group && group->members.back() != node) continue;  // the group is carried out at its last member
    const UseScope scope(node->scope);
    const bool alone =
        group && group->members.size() == 1 &&
        std::none_of(node->inputs.begin(), node->inputs.end(), [&](const Tensor& input) {
          return is_absorbed(*input.node()) || is_generated(*input.node(), elements(node->types[0].shape));
        });
    if (group && !alone) {
      std::vector<Tensor> outputs;
      for (const std::shared_ptr<Node>& member : group->members)
        if (needed.contains(Tensor(member, 0))) outputs.emplace_back(member, 0);
      if (outputs.empty()) continue;
      const std::vector<Tensor> fused = FusionBuilder(*group, is_absorbed, replaced).finish(outputs);
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
