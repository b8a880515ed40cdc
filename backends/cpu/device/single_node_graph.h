// SPDX-License-Identifier: Apache-2.0
// A node by itself as a graph: its inputs and outputs are those of the graph.
#pragma once

#include <deque>
#include <vector>

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

class SingleNodeGraph {
 public:
  explicit SingleNodeGraph(const Node& node);
  SingleNodeGraph(const SingleNodeGraph&) = delete;
  SingleNodeGraph& operator=(const SingleNodeGraph&) = delete;

  const transom_graph& graph() const { return graph_; }
  const transom_node& node() const { return node_; }
  // Another shape for an input, or for all outputs.
  void reshape_input(size_t i, Shape shape) { reshape(i, std::move(shape)); }
  void reshape_outputs(const Shape& shape) {
    for (const int32_t value : outputs_) reshape(static_cast<size_t>(value), shape);
  }

 private:
  void reshape(size_t value, Shape shape);

  std::deque<Shape> shapes_;  // the other ones
  std::vector<transom_value> values_;
  std::vector<int32_t> inputs_, outputs_;
  transom_node node_;
  transom_graph graph_{};
};

}  // namespace transom::cpu
