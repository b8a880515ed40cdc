// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/fold_constants.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/ir/tensor_map.h"
#include "graph/passes/passes.h"

namespace transom {
namespace {

// What a node computes from.
struct Cone {
  bool frozen = true;  // from frozen inputs and constants alone
  bool works = false;  // something in it is more than movement
  std::set<size_t> inputs;
};

class Folder {
 public:
  Folder(const Graph& graph, const std::vector<bool>& frozen) : graph_(graph) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      Cone& cone = cones_[graph.inputs[i].node().get()];
      cone.frozen = frozen[i];
      cone.inputs = {i};
    }
    for (const std::shared_ptr<Node>& node : graph.nodes) {
      Cone& cone = cones_[node.get()];
      cone.works = !node->operation->moves_only;
      for (const Tensor& input : node->inputs) {
        const Cone& from = cones_.at(input.node().get());
        cone.frozen = cone.frozen && from.frozen;
        if (!cone.frozen) break;
        cone.works |= from.works;
        cone.inputs.insert(from.inputs.begin(), from.inputs.end());
      }
    }
  }

  FoldedGraph fold() {
    // Backwards from the outputs: what stays reads either what stays or what is folded.
    std::unordered_map<const Node*, bool> stays;
    for (const Tensor& output : graph_.outputs) stays[output.node().get()] = true;
    std::vector<Tensor> folded;
    TensorSet seen;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (!stays[node->get()]) continue;
      for (const Tensor& input : (*node)->inputs)
        if (!folds(input)) stays[input.node().get()] = true;
        else if (seen.insert(input).second) folded.push_back(input);
    }
    std::erase_if(folded, [&](const Tensor& value) { return stays[value.node().get()]; });  // an output reads it too
    FoldedGraph result{graph_, {}};
    if (folded.empty()) return result;
    std::reverse(folded.begin(), folded.end());
    std::unordered_map<const Node*, Tensor> leaves;
    for (const Tensor& value : folded) {
      result.values.push_back(part_of(value));
      result.graph.inputs.push_back(make_input(value.type()));
      leaves.emplace(value.node().get(), result.graph.inputs.back());
    }
    result.graph = rewrite(result.graph, [&](const Node& node, const std::vector<Tensor>&) {
      const auto leaf = leaves.find(&node);
      return leaf == leaves.end() ? std::vector<Tensor>{} : std::vector<Tensor>{leaf->second};
    });
    return result;
  }

 private:
  bool folds(const Tensor& value) const {
    const Cone& cone = cones_.at(value.node().get());
    if (is_input(*value.node()) || !cone.frozen || !cone.works || value.node()->types.size() != 1) return false;
    if (cone.inputs.empty()) return false;  // of constants alone: folded values are kept beside their first input
    int64_t sources = 0;
    for (const size_t i : cone.inputs) sources += bytes_of(graph_.inputs[i].type());
    return bytes_of(value.type()) <= sources;
  }

  FoldedConstant part_of(const Tensor& value) const {
    FoldedConstant part{make_graph({value}), {}, {}};
    part.key = structural_key(part.graph);
    for (const Tensor& input : part.graph.inputs)
      part.inputs.push_back(static_cast<size_t>(
          std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const Tensor& x) { return x.same_as(input); }) -
          graph_.inputs.begin()));
    return part;
  }

  const Graph& graph_;
  std::unordered_map<const Node*, Cone> cones_;
};

}  // namespace

FoldedGraph fold_constants(const Graph& graph, const std::vector<bool>& frozen) {
  if (std::find(frozen.begin(), frozen.end(), true) == frozen.end()) return {graph, {}};
  return Folder(graph, frozen).fold();
}

}  // namespace transom
