// SPDX-License-Identifier: Apache-2.0
// The compiler's passes: each takes a graph and gives a better one that computes the same.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace transom {

// Of a value, in bytes.
inline int64_t bytes_of(const Type& type) { return elements(type.shape) * static_cast<int64_t>(size_of(type.dtype)); }

// Whether the device runs this composite itself.
using Claims = std::function<bool(const Node&)>;

Graph simplify(const Graph& graph);  // common subexpressions, algebra, cancelling movement
Graph lower_composites(const Graph& graph, const Claims& claims);  // unclaimed composites become their decomposition
Graph lay_out_images(const Graph& graph,
                     const Claims& claims);  // channels last, where the device claims it and it pays
Graph fuse_elementwise(const Graph& graph);  // chains of element-wise nodes become one pass over memory
Graph fuse_rows(const Graph& graph);         // what walks the same rows is computed some rows at a time
Graph schedule(const Graph& graph);          // the same nodes in an order in which less memory is live at once
Graph hoist_vectors(const Graph& graph);     // small tensors made of inputs alone stand first

struct PassOptions {
  Claims claims;
  // Called with the graph before the first pass ("trace") and after each.
  std::function<void(std::string_view pass, const Graph&)> observe;
};

// All of them, in order.
Graph run_passes(Graph graph, const PassOptions& options);

}  // namespace transom
