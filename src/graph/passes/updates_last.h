// SPDX-License-Identifier: Apache-2.0
// The order of a program whose inputs are wanted back if it fails: updates come last.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace transom {

struct UpdatesLast {
  Graph graph;
  size_t first_update = 0;  // the place of the first update; the number of nodes where there is none
};

// The same nodes in an order in which updates, and what is computed from their results, come behind all others.
// An update makes an output that `plan_memory` would put onto a donated input that is restorable. It must not be needed
// for other outputs: a node that makes a running statistic beside activations is no update, and stays.
// Both vectors have an entry for each input of the graph.
UpdatesLast updates_last(Graph graph, const std::vector<bool>& donated, const std::vector<bool>& restorable);

}  // namespace transom
