// SPDX-License-Identifier: Apache-2.0
// Joins what walks the rows of a tensor: reductions along the last axis, norms and softmax, sums over all rows, and the
// element-wise nodes before, between and behind them. A device computes such a group some rows at a time, so that what
// only the group reads never leaves the caches.
#include <algorithm>
#include <unordered_map>

#include "graph/passes/fusion/node_groups.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

constexpr size_t kMaximumRowMembers = 32;
// A sum over all rows is cut into pieces of rows at places that must not depend on who walks them: fewer rows make too
// few pieces for the threads.
constexpr int64_t kFewestRows = 256;

bool is_row_reduction(const Node& node) {
  return node.operation->row_wise == RowWise::kReduction && node.types[0].dtype == DType::kFloat32 &&
         node.attributes.get_ints("axes") == Shape{node.inputs[0].rank() - 1};
}

// Whether the node makes sums over all rows, of its first input or of what it makes of it.
bool makes_column_sums(const Node& node) {
  if (!is_column_sum(node) && node.operation->row_wise != RowWise::kAndColumnSums) return false;
  const Type& type = node.inputs[0].type();
  return is_floating(type.dtype) && size_of(type.dtype) <= 4 && type.shape.size() >= 2 && type.shape.back() >= 2 &&
         elements(type.shape) / type.shape.back() >= kFewestRows;
}

// They are complete when all rows have been walked: no row of the group can read them.
bool is_column_value(const Tensor& tensor) {
  return makes_column_sums(*tensor.node()) && (tensor.output() > 0 || is_column_sum(*tensor.node()));
}

bool walks_rows(const Node& node) {
  return is_row_reduction(node) || node.operation->row_wise == RowWise::kEachRow || makes_column_sums(node);
}

bool is_elementwise(const Node& node) {
  if (node.operation->elementwise) return true;
  return is_op(node, op::fusion) && std::none_of(node.types.begin(), node.types.end(), [&](const Type& type) {
           return type.shape != node.types[0].shape;  // a total beside the others
         });
}

const Shape& shape_of(const Node& node) {
  return is_row_reduction(node) || is_column_sum(node) ? node.inputs[0].shape() : node.types[0].shape;
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
    else if (is_op(*inner, op::broadcast) && is_one_a_row(inner->inputs[0].shape(), inner->types[0].shape) &&
             inner->types[0].shape == node.types[0].shape)
      reading.by_row = true;
    else return {};
  }
  return reading;
}

class RowGroups {
 public:
  explicit RowGroups(const Graph& graph) : groups_(graph) {
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      const std::vector<size_t> joined = joinable(*node);
      for (const Tensor& input : node->inputs) {
        const size_t group = groups_.of(*input.node());
        if (group != NodeGroups::kNone && std::find(joined.begin(), joined.end(), group) == joined.end())
          groups_.close(group);
      }
      if (!joined.empty() || starts_group(*node)) groups_.join(node, joined);
    }
    for (size_t i = 0; i < groups_.size(); ++i) worth_it_.push_back(is_worth_it(groups_[i]));
  }

  // The group of a node, if it has one that is worth fusing.
  const NodeGroup* of(const Node& node) const {
    const size_t index = groups_.of(node);
    return index != NodeGroups::kNone && worth_it_[index] ? &groups_[index] : nullptr;
  }

 private:
  static bool starts_group(const Node& node) {
    if (!walks_rows(node) && !is_elementwise(node)) return false;
    if (is_column_sum(node)) return false;
    const Shape& shape = shape_of(node);
    return shape.size() >= 2 && shape.back() >= 2 && elements(shape) > shape.back();
  }

  static bool is_worth_it(const NodeGroup& group) {
    size_t computing = 0, walking = 0;
    for (const std::shared_ptr<Node>& member : group.members) {
      computing += !is_op(*member, op::reshape);
      walking += walks_rows(*member);
    }
    return computing > 1 && walking > 0;
  }

  // Of the tensor whose rows the group walks: a node of that shape has begun it.
  const Shape& shape_of_group(size_t group) const { return shape_of(*groups_[group].members[0]); }

  // The groups that the node can belong to.
  std::vector<size_t> joinable(const Node& node) const {
    std::vector<size_t> open;
    for (const Tensor& input : node.inputs) {
      const size_t group = groups_.of(*input.node());
      if (group != NodeGroups::kNone && !groups_[group].closed && fits(node, group)) open.push_back(group);
    }
    return groups_.joinable(std::move(open), kMaximumRowMembers, [&](size_t group, const std::vector<size_t>& taken) {
      return taken.empty() || shape_of_group(group) == shape_of_group(taken[0]);
    });
  }

  // Whether the node can be computed for some rows once the group is computed for these rows.
  bool fits(const Node& node, size_t index) const {
    const Shape& shape = shape_of_group(index);
    const auto each_input = [&](auto&& allowed) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (groups_.of(*node.inputs[i].node()) == index &&
            (is_column_value(node.inputs[i]) || !allowed(i, node.inputs[i].shape())))
          return false;
      return true;
    };
    if (is_op(node, op::reshape))
      return is_one_a_row(node.inputs[0].shape(), shape) && is_one_a_row(node.types[0].shape, shape) &&
             !is_column_value(node.inputs[0]);
    if (walks_rows(node))
      return shape_of(node) == shape && each_input([&](size_t, const Shape& x) { return x == shape; });
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

  NodeGroups groups_;
  std::vector<bool> worth_it_;
};

// The members as the region of one node, whose outputs are `needed`.
std::vector<Tensor> row_fusion(const NodeGroup& group, const std::vector<Tensor>& needed,
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
  return outputs_of(make_node(op::row_fusion, std::move(outside), {}, std::make_shared<Graph>(std::move(region))));
}

// The same nodes, sums over all rows right behind what they sum: gradients of biases stand behind the products that
// read the same tensor.
Graph with_column_sums_first(const Graph& graph) {
  const auto moves = [](const Node& node) {
    return is_column_sum(node) && makes_column_sums(node) && !is_input(*node.inputs[0].node());
  };
  std::unordered_map<const Node*, std::vector<std::shared_ptr<Node>>> sums;  // of what a node makes
  for (const std::shared_ptr<Node>& node : graph.nodes)
    if (moves(*node)) sums[node->inputs[0].node().get()].push_back(node);
  Graph result{graph.inputs, {}, graph.outputs};
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    if (moves(*node)) continue;
    result.nodes.push_back(node);
    if (const auto found = sums.find(node.get()); found != sums.end())
      result.nodes.insert(result.nodes.end(), found->second.begin(), found->second.end());
  }
  return result;
}

}  // namespace

Graph fuse_rows(const Graph& given) {
  const CompilerScope compiler;
  const Graph graph = with_column_sums_first(given);
  const RowGroups groups(graph);
  return replace_groups(
      graph, [&](const Node& node) { return groups.of(node); }, row_fusion);
}

}  // namespace transom
