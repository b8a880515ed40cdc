// SPDX-License-Identifier: Apache-2.0
// The compiler's passes: each takes a graph and gives a better one that computes the same.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "graph/passes/graph_builder.h"

namespace transom {

// Of a value, in bytes.
inline int64_t bytes_of(const Type& type) { return elements(type.shape) * static_cast<int64_t>(size_of(type.dtype)); }

// All axes but the last.
inline Shape leading_axes(int64_t rank) {
  Shape axes(static_cast<size_t>(std::max<int64_t>(rank - 1, 0)));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}
// A sum over all rows: one number for each column.
inline bool is_column_sum(const Node& node) {
  return is_op(node, op::reduce_sum) && node.inputs[0].rank() >= 2 &&
         node.attributes.get_ints("axes") == leading_axes(node.inputs[0].rank());
}

// Whether the device runs this composite itself.
using Supports = std::function<bool(const Node&)>;

Graph simplify(const Graph& graph);  // common subexpressions, algebra, cancelling movement
Graph lower_composites(const Graph& graph, const Supports& supports);  // other composites become their decomposition
Graph assign_layout(const Graph& graph,
                    const Supports& supports);  // channels last, where the device supports it and it pays
Graph fuse_elementwise(const Graph& graph);     // chains of element-wise nodes become one pass over memory
Graph fuse_rows(const Graph& graph);            // what walks the same rows is computed some rows at a time
Graph schedule(const Graph& graph);             // the same nodes in an order in which less memory is live at once
Graph hoist_small_values(const Graph& graph);   // small tensors made of inputs alone stand first

struct PassOptions {
  Supports supports;
  // Whether the device runs a node of the lowered graph at all; null: each. What it does not run becomes on_host nodes.
  Supports runs;
  // Called with the graph before the first pass ("trace") and after each.
  std::function<void(std::string_view pass, const Graph&)> observe;
};

// Checks what a pass gives, in debug builds and where the environment variable TRANSOM_VERIFY is set; an error of the
// kind kInternal names the pass.
void verify_pass(std::string_view name, const Graph& graph);

// All of them, in order.
Graph run_passes(Graph graph, const PassOptions& options);

}  // namespace transom
