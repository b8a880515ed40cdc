// SPDX-License-Identifier: Apache-2.0
// What a graph computes from frozen inputs alone, taken out of it: it is computed once, not at every run. Norms of
// weights, products of weights with weights, scales of batch norms in inference.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace transom {

struct FoldedConstant {
  Graph graph;                 // one output; its inputs are inputs of the whole graph
  std::vector<size_t> inputs;  // which of them
  GraphKey key;                // of the graph's structure
};

struct FoldedGraph {
  Graph graph;  // the whole one, with a further input for each of `values`
  std::vector<FoldedConstant> values;
};

// `frozen[i]`: input i keeps its contents from run to run. Values that are only moved or cast are left (devices read
// them where they are needed), and so are those that are larger than the inputs that they are made of.
FoldedGraph fold_constants(const Graph& graph, const std::vector<bool>& frozen);

}  // namespace transom
