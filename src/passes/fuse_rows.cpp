// SPDX-License-Identifier: Apache-2.0
// Joins what walks the rows of a tensor: reductions along the last axis, norms and softmax, and the element-wise nodes
// before, between and behind them. A device computes such a group some rows at a time, so that what only the group
// reads never leaves the caches.
//
// Groups grow and close as those of fuse_elementwise do: a group is carried out where its last member stands, so it
// takes no more members once a node outside it reads from it.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "ir/tensor_map.h"
#include "passes/passes.h"

namespace transom {
namespace {

constexpr size_t kMaximumMembers = 32;

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), node.operation->name) != names.end();
}

bool is_row_reduction(const Node& node) {
  if (!is_one_of(node, {"reduce_sum", "reduce_max", "reduce_min"}) || node.types[0].dtype != DType::kFloat32)
    return false;
  return node.attributes.get_ints("axes") == Shape{node.inputs[0].rank() - 1};
}

// Composites that take one row after the other; inputs behind the rows (scale, bias) are the same for all.
size_t inputs_in_rows(const Node& node) {
  if (is_one_of(node, {"softmax", "log_softmax", "layer_norm"})) return 1;
  return is_one_of(node, {"softmax_gradient", "log_softmax_gradient"}) ? 2 : 0;
}

bool walks_rows(const Node& node) { return is_row_reduction(node) || inputs_in_rows(node) > 0; }

bool is_elementwise(const Node& node) {
  if (node.operation->elementwise) return true;
  return node.operation->name == "fusion" && std::none_of(node.types.begin(), node.types.end(), [&](const Type& type) {
           return type.shape != node.types[0].shape;  // a total beside the others
         });
}

const Shape& shape_of(const Node& node) {
  return is_row_reduction(node) ? node.inputs[0].shape() : node.types[0].shape;
}

// [..., 1] or [...]: one element for each row of a tensor of `shape`.
bool is_one_a_row(const Shape& one, const Shape& shape) {
  Shape rows = shape;
  rows.back() = 1;
  if (one == rows) return true;
  rows.pop_back();
  return one == rows;
}

// How an element-wise node reads its input `i`.
struct Reading {
  bool in_order = false, by_row = false;  // element by element; one element for the whole row
};

Reading reading_of(const Node& node, size_t i) {
  if (!node.region) return {.in_order = true};
  Reading reading;
  for (const std::shared_ptr<Node>& inner : node.region->nodes) {
    if (std::none_of(inner->inputs.begin(), inner->inputs.end(),
                     [&](const Tensor& x) { return x.same_as(node.region->inputs[i]); }))
      continue;
    if (inner->operation->elementwise) reading.in_order = true;
    else if (inner->operation->name == "broadcast" && is_one_a_row(inner->inputs[0].shape(), inner->types[0].shape) &&
             inner->types[0].shape == node.types[0].shape)
      reading.by_row = true;
    else return {};
  }
  return reading;
}

struct Group {
  Shape shape;
  std::vector<std::shared_ptr<Node>> members;
  bool closed = false;
};

class Groups {
 public:
  explicit Groups(const Graph& graph) {
    size_t position = 0;
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      position_.emplace(node.get(), position++);
      const bool starts = walks_rows(*node) || is_elementwise(*node);
      const std::vector<size_t> joined = joinable(*node);
      for (const Tensor& input : node->inputs) {
        const size_t group = group_of(input);
        if (group != kNone && std::find(joined.begin(), joined.end(), group) == joined.end())
          groups_[group].closed = true;
      }
      if (starts || !joined.empty()) join(node, joined);
    }
  }

  // The group of a node, if it has one that is worth carrying out as one.
  const Group* of(const Node& node) const {
    const auto found = place_.find(&node);
    if (found == place_.end()) return nullptr;
    const Group& group = groups_[found->second];
    size_t computing = 0, walking = 0;
    for (const std::shared_ptr<Node>& member : group.members) {
      computing += member->operation->name != "reshape";
      walking += walks_rows(*member);
    }
    return computing > 1 && walking > 0 ? &group : nullptr;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  size_t group_of(const Tensor& tensor) const {
    const auto found = place_.find(tensor.node().get());
    return found == place_.end() ? kNone : found->second;
  }

  // The groups that the node can belong to, the last one first.
  std::vector<size_t> joinable(const Node& node) const {
    std::vector<size_t> read;
    for (const Tensor& input : node.inputs)
      if (const size_t group = group_of(input); group != kNone && !groups_[group].closed && fits(node, group))
        read.push_back(group);
    std::sort(read.begin(), read.end(), std::greater<>());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    std::vector<size_t> joined;
    size_t members = 1;
    for (const size_t group : read) {
      if (!joined.empty() && groups_[group].shape != groups_[joined[0]].shape) continue;
      if (members + groups_[group].members.size() > kMaximumMembers) continue;
      members += groups_[group].members.size();
      joined.push_back(group);
    }
    return joined;
  }

  // Whether the node can be computed for some rows once the group is computed for these rows.
  bool fits(const Node& node, size_t index) const {
    const Shape& shape = groups_[index].shape;
    const auto each_input = [&](auto&& allowed) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (group_of(node.inputs[i]) == index && !allowed(i, node.inputs[i].shape())) return false;
      return true;
    };
    if (node.operation->name == "reshape")
      return is_one_a_row(node.inputs[0].shape(), shape) && is_one_a_row(node.types[0].shape, shape);
    if (walks_rows(node))
      return shape_of(node) == shape &&
             each_input([&](size_t i, const Shape& x) { return x == shape && (i < inputs_in_rows(node) || i == 0); });
    if (!is_elementwise(node)) return false;
    if (node.types[0].shape == shape)
      return each_input([&](size_t i, const Shape& x) {
        const Reading reading = reading_of(node, i);
        return x == shape ? reading.in_order && !reading.by_row : reading.by_row && !reading.in_order;
      });
    return is_one_a_row(node.types[0].shape, shape) && each_input([&](size_t i, const Shape& x) {
             const Reading reading = reading_of(node, i);
             return x == node.types[0].shape && reading.in_order && !reading.by_row;
           });
  }

  void join(const std::shared_ptr<Node>& node, const std::vector<size_t>& groups) {
    if (groups.empty()) {
      const Shape& shape = shape_of(*node);
      if (shape.size() < 2 || shape.back() < 2 || elements(shape) <= shape.back()) return;
      groups_.push_back({shape, {}, false});
    }
    const size_t target = groups.empty() ? groups_.size() - 1 : groups[0];
    std::vector<std::shared_ptr<Node>>& members = groups_[target].members;
    for (size_t i = 1; i < groups.size(); ++i) {
      for (const std::shared_ptr<Node>& member : groups_[groups[i]].members) {
        place_[member.get()] = target;
        members.push_back(member);
      }
      groups_[groups[i]].members.clear();
      groups_[groups[i]].closed = true;
    }
    if (groups.size() > 1)
      std::sort(members.begin(), members.end(),
                [&](const auto& a, const auto& b) { return position_.at(a.get()) < position_.at(b.get()); });
    members.push_back(node);
    place_.emplace(node.get(), target);
  }

  std::vector<Group> groups_;
  std::unordered_map<const Node*, size_t> place_, position_;
};

// The members as the region of one node, whose outputs are `needed`.
std::vector<Tensor> row_fusion(const Group& group, const std::vector<Tensor>& needed,
                               const TensorMap<Tensor>& replaced) {
  Graph region;
  TensorMap<Tensor> inside;
  std::vector<Tensor> outside;
  for (const std::shared_ptr<Node>& member : group.members) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : member->inputs) {
      if (!inside.contains(input)) {
        const auto found = replaced.find(input);
        outside.push_back(found == replaced.end() ? input : found->second);
        region.inputs.push_back(make_input(input.type()));
        inside.emplace(input, region.inputs.back());
      }
      inputs.push_back(inside.at(input));
    }
    const auto copy = make_node(*member->operation, std::move(inputs), member->attributes, member->region);
    region.nodes.push_back(copy);
    for (size_t o = 0; o < copy->types.size(); ++o)
      inside.emplace(Tensor(member, static_cast<int>(o)), Tensor(copy, static_cast<int>(o)));
  }
  for (const Tensor& tensor : needed) region.outputs.push_back(inside.at(tensor));
  static const Operation& operation = find_operation("row_fusion");
  return outputs_of(make_node(operation, std::move(outside), {}, std::make_shared<Graph>(std::move(region))));
}

}  // namespace

Graph fuse_rows(const Graph& graph) {
  const CompilerScope compiler;
  const Groups groups(graph);
  TensorSet needed(graph.outputs.begin(), graph.outputs.end());  // read outside of the group that makes it
  for (const std::shared_ptr<Node>& node : graph.nodes)
    for (const Tensor& input : node->inputs)
      if (const Group* reader = groups.of(*node); !reader || groups.of(*input.node()) != reader) needed.insert(input);

  TensorMap<Tensor> replaced;
  const auto replacement = [&](const Tensor& tensor) {
    const auto found = replaced.find(tensor);
    return found == replaced.end() ? tensor : found->second;
  };
  Graph result{graph.inputs, {}, {}};
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const Group* group = groups.of(*node);
    if (group && group->members.back() != node) continue;  // carried out at its last member
    const UseScope scope(node->scope);
    if (group) {
      std::vector<Tensor> outputs;
      for (const std::shared_ptr<Node>& member : group->members)
        for (const Tensor& output : outputs_of(member))
          if (needed.contains(output)) outputs.push_back(output);
      if (outputs.empty()) continue;
      const std::vector<Tensor> fused = row_fusion(*group, outputs, replaced);
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
