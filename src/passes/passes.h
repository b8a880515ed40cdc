// SPDX-License-Identifier: Apache-2.0
// The compiler's passes: each takes a graph and gives a better one that computes the same.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace transom {

// Whether the device runs this composite itself.
using Claims = std::function<bool(const Node&)>;

Graph simplify(const Graph& graph);  // common subexpressions, algebra, cancelling movement
Graph lower_composites(const Graph& graph, const Claims& claims);  // unclaimed composites become their decomposition
Graph fuse_elementwise(const Graph& graph);  // chains of element-wise nodes become one pass over memory
Graph schedule(const Graph& graph);          // the same nodes in an order in which less memory is live at once

struct PassOptions {
  Claims claims;
  // Called with the graph before the first pass ("trace") and after each.
  std::function<void(std::string_view pass, const Graph&)> observe;
};

// All of them, in order.
Graph run_passes(Graph graph, const PassOptions& options);

}  // namespace transom
