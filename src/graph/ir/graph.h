// SPDX-License-Identifier: Apache-2.0
// A graph: nodes in an order in which every input is made before it is used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/ir/node.h"

namespace transom {

struct Graph {
  std::vector<Tensor> inputs;                // leaves, in the order of the program's arguments
  std::vector<std::shared_ptr<Node>> nodes;  // without the inputs
  std::vector<Tensor> outputs;
};

// The graph that computes `outputs` from `inputs`, its nodes in the order of their creation. What is reached and
// already computed, and leaves that are not among `inputs`, become further inputs, in the order in which they are
// found.
Graph make_graph(std::vector<Tensor> outputs, std::vector<Tensor> inputs = {});

// Builds a graph anew, node by node in order. `replace` gets each node (whose inputs are still the old ones) and its
// new inputs, and returns its new outputs, or nothing to keep the node. The order of the graph is kept; nodes that
// `replace` makes stand where the old one stood; what is no longer used is left out.
using Replacement = std::function<std::vector<Tensor>(const Node& node, const std::vector<Tensor>& inputs)>;
Graph rewrite(const Graph& graph, const Replacement& replace);

// The outputs of `graph` computed from `inputs`: its nodes made anew, one input for each of the graph's.
std::vector<Tensor> inline_graph(const Graph& graph, const std::vector<Tensor>& inputs);

// The same graph on new leaves. Passes look at the nodes that make values; isolated, they see nothing beyond the
// inputs.
Graph isolate(const Graph& graph);

// The graph as text that parse_graph reads back:
//   graph(%0: f32[2, 3], %1: f32[3]) {
//     %2 = reshape(%1) {shape=[1, 3]} : f32[1, 3]
//     return %2
//   }
std::string print_graph(const Graph& graph);
Graph parse_graph(std::string_view text);

// Throws an internal error that names the node if the graph breaks a rule: an input used before it is made, types that
// the operation's rule does not give, an output that nothing makes.
void verify(const Graph& graph);

// Equal for graphs of the same structure, operations, attributes and types, whatever the names and values; two
// independent 64-bit hashes, so that different graphs do not meet in practice.
struct GraphKey {
  uint64_t first = 0, second = 0;
  bool operator==(const GraphKey&) const = default;
  void mix(uint64_t value);  // what else graphs shall be told apart by
};
struct GraphKeyHash {
  size_t operator()(const GraphKey& key) const { return key.first; }
};
GraphKey structural_key(const Graph& graph);

}  // namespace transom
