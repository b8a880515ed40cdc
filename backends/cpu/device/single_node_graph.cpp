// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/single_node_graph.h"

#include <utility>

namespace transom::cpu {

SingleNodeGraph::SingleNodeGraph(const Node& node) : node_(plugin::take_over(node.source())) {
  const auto add = [&](const int32_t* from, size_t count, std::vector<int32_t>& indices) {
    for (size_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<int32_t>(values_.size()));
      values_.push_back(node.graph().values[from[i]]);
    }
  };
  add(node_.inputs, node_.inputs_count, inputs_);
  add(node_.outputs, node_.outputs_count, outputs_);
  node_.inputs = inputs_.data();
  node_.outputs = outputs_.data();
  graph_.struct_size = sizeof graph_;
  graph_.values = values_.data();
  graph_.values_count = values_.size();
  graph_.nodes = &node_;
  graph_.nodes_count = 1;
  graph_.inputs = inputs_.data();
  graph_.inputs_count = inputs_.size();
  graph_.outputs = outputs_.data();
  graph_.outputs_count = outputs_.size();
}

void SingleNodeGraph::reshape(size_t value, Shape shape) {
  shapes_.push_back(std::move(shape));
  values_[value].rank = static_cast<int32_t>(shapes_.back().size());
  values_[value].shape = shapes_.back().data();
}

}  // namespace transom::cpu
