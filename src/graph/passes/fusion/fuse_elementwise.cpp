// SPDX-License-Identifier: Apache-2.0
// Joins element-wise nodes of one shape into fusions, each one pass over memory. Broadcasts of values and constants go
// into the fusions that read them.
#include <algorithm>
#include <unordered_set>

#include "graph/passes/fusion/node_groups.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

constexpr size_t kMaximumMembers = 64;

bool is_member(const Node& node) { return node.operation->elementwise || is_op(node, op::random_bits); }

// The sum over all elements, taken while they pass by. It joins those who make them, but makes no group of its own.
bool is_total(const Node& node) {
  return is_op(node, op::reduce_sum) && node.types[0].dtype == DType::kFloat32 && elements(node.types[0].shape) == 1 &&
         node.inputs[0].size() > 1;
}

// Constants, and broadcasts and reshapes of constants, cost nothing inside a fusion.
bool is_constant(const Node& node) {
  if (is_op(node, op::constant)) return true;
  return (is_op(node, op::broadcast) || is_op(node, op::reshape)) && is_constant(*node.inputs[0].node());
}

// A cast to a wider type of what no fusion makes: reading the narrow values again costs less than keeping the wide
// ones.
bool is_widening(const Node& node) {
  if (!is_op(node, op::cast)) return false;
  const Tensor& input = node.inputs[0];
  return is_floating(input.dtype()) && is_floating(node.types[0].dtype) &&
         size_of(input.dtype()) < size_of(node.types[0].dtype) && !is_member(*input.node());
}

// A parameter [C] on its way to [1, C, 1, 1] moves nothing.
bool adds_unit_axes(const Node& node) {
  if (!is_op(node, op::reshape) || !is_input(*node.inputs[0].node())) return false;
  const auto extents = [](Shape shape) {
    std::erase(shape, 1);
    return shape;
  };
  return extents(node.inputs[0].shape()) == extents(node.types[0].shape);
}

// What fusions read through: each reader takes its own copy.
class Absorbed {
 public:
  explicit Absorbed(const Graph& graph) {
    for (const Tensor& output : graph.outputs) {
      kept_.insert(output.node().get());
      not_only_repeated_.insert(output.node().get());
    }
    for (const std::shared_ptr<Node>& node : graph.nodes)
      for (const Tensor& input : node->inputs) {
        if (!is_member(*node)) kept_.insert(input.node().get());
        if (!is_op(*node, op::broadcast)) not_only_repeated_.insert(input.node().get());
      }
  }
  bool operator()(const Node& node) const {
    return is_op(node, op::broadcast) || is_constant(node) || (is_widening(node) && !kept_.contains(&node)) ||
           (adds_unit_axes(node) && !not_only_repeated_.contains(&node));
  }

 private:
  std::unordered_set<const Node*> kept_;               // read by others than element-wise nodes
  std::unordered_set<const Node*> not_only_repeated_;  // read by others than broadcasts
};

// An iota of as many elements as the fusion is computed inside as well.
bool is_generated(const Node& node, int64_t count) {
  return is_op(node, op::iota) && elements(node.types[0].shape) == count;
}

class Groups {
 public:
  Groups(const Graph& graph, const Absorbed& is_absorbed) : absorbed_(is_absorbed), groups_(graph) {
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      if (absorbed_(*node)) continue;
      const std::vector<size_t> joined = is_member(*node) || is_total(*node) ? joinable(*node) : std::vector<size_t>();
      for (const Tensor& input : node->inputs) close_unless(input, joined);
      if (is_member(*node) || !joined.empty()) groups_.join(node, joined);
    }
  }

  // The group of a node, or null: one node by itself is none, unless it reads what fusions absorb.
  const NodeGroup* of(const Node& node) const {
    const size_t index = groups_.of(node);
    if (index == NodeGroups::kNone) return nullptr;
    const bool alone = groups_[index].members.size() == 1 &&
                       std::none_of(node.inputs.begin(), node.inputs.end(), [&](const Tensor& input) {
                         return absorbed_(*input.node()) || is_generated(*input.node(), elements(node.types[0].shape));
                       });
    return alone ? nullptr : &groups_[index];
  }

 private:
  // The groups that the node can belong to, and through it to each other: nobody else reads from them yet.
  std::vector<size_t> joinable(const Node& node) const {
    const Shape& shape = is_total(node) ? node.inputs[0].shape() : node.types[0].shape;
    std::vector<size_t> open;
    for (const Tensor& input : node.inputs) {
      const size_t group = groups_.of(*input.node());
      if (group != NodeGroups::kNone && !groups_[group].closed && groups_[group].members[0]->types[0].shape == shape)
        open.push_back(group);
    }
    return groups_.joinable(std::move(open), kMaximumMembers, [&](size_t group, const std::vector<size_t>&) {
      return !read_through_broadcast(node, group);
    });
  }

  // Whether the node reads the group through what fusions absorb: then the group's value must be complete before it.
  bool read_through_broadcast(const Node& node, size_t group) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Tensor& input) {
      if (!absorbed_(*input.node())) return false;
      const Node& source = *input.node();
      return std::any_of(source.inputs.begin(), source.inputs.end(),
                         [&](const Tensor& x) { return groups_.of(*x.node()) == group; }) ||
             read_through_broadcast(source, group);
    });
  }

  // Closes the groups that `tensor` is read from, directly or through what fusions absorb, but for those in `except`.
  void close_unless(const Tensor& tensor, const std::vector<size_t>& except) {
    const size_t group = groups_.of(*tensor.node());
    if (group != NodeGroups::kNone) {
      if (std::find(except.begin(), except.end(), group) == except.end()) groups_.close(group);
    } else if (absorbed_(*tensor.node())) {
      for (const Tensor& input : tensor.node()->inputs) close_unless(input, {});
    }
  }

  const Absorbed& absorbed_;
  NodeGroups groups_;
};

// Builds one fusion: the region, its inputs, and which of its values are needed outside.
class FusionBuilder {
 public:
  FusionBuilder(const NodeGroup& group, const Absorbed& is_absorbed, const TensorMap<Tensor>& replaced)
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
    return outputs_of(make_node(op::fusion, outside_inputs_, {}, std::make_shared<Graph>(std::move(region_))));
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
  return replace_groups(
      graph, [&](const Node& node) { return groups.of(node); },
      [&](const NodeGroup& group, const std::vector<Tensor>& needed, const TensorMap<Tensor>& replaced) {
        return FusionBuilder(group, is_absorbed, replaced).finish(needed);
      });
}

}  // namespace transom
