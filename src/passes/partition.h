// SPDX-License-Identifier: Apache-2.0
// A graph with collectives as partitions for the device, each followed by the collective whose input it makes.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace transom {

bool is_collective(const Node& node);

struct Partition {
  std::vector<std::shared_ptr<Node>> nodes;  // in order; none, where the collective's input is there already
  std::shared_ptr<Node> collective;          // started after them; null in the last partition
};

// The nodes of a lowered graph, each as early as the next collective needs it: the first partition makes the input of
// the first collective and nothing else, the second what the second needs besides, and the last all that waits for
// results. Collectives come in the order of their attribute `order`.
std::vector<Partition> partition_at_collectives(const Graph& graph);

}  // namespace transom
