// SPDX-License-Identifier: Apache-2.0
// Nodes that the device does not run, set apart: no other pass joins them with what the device runs.
#pragma once

#include "graph/passes/passes.h"

namespace transom {

// The lowered graph with each node for which `runs` is false as an on_host node. Collectives are left as they are.
Graph place_on_host(const Graph& graph, const Supports& runs);

bool is_on_host(const Node& node);

// The same graph with the regions of its on_host nodes in their places.
Graph without_host_regions(const Graph& graph);

}  // namespace transom
