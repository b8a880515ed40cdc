// SPDX-License-Identifier: Apache-2.0
// A graph in the form of the plugin interface: flat C structs that point into memory which this object owns.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/memory_plan.h"
#include "transom/device_plugin.h"

namespace transom {

class GraphView {
 public:
  // `plan` null: no value has a place in an arena.
  GraphView(const Graph& graph, const MemoryPlan* plan, const std::vector<bool>& frozen);
  const transom_graph& graph() const { return graph_; }

 private:
  int32_t add_value(const Tensor& tensor, const MemoryPlan* plan, bool frozen);
  void add_node(const Node& node, const std::shared_ptr<Node>& owner, const MemoryPlan* plan);

  const Graph& source_;
  transom_graph graph_{};
  std::vector<transom_value> values_;
  std::vector<transom_node> nodes_;
  TensorMap<int32_t> indices_;
  std::deque<std::vector<int32_t>> lists_;
  std::deque<std::vector<transom_attribute>> attributes_;
  std::deque<std::string> names_;
  std::vector<std::unique_ptr<GraphView>> regions_;
};

// Attributes as the plugin interface has them; they point into `attributes`.
std::vector<transom_attribute> attribute_view(const Attributes& attributes);

}  // namespace transom
