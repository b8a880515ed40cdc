// SPDX-License-Identifier: Apache-2.0
// A graph as partitions, each of which runs as a whole: on the device or on the host. They are cut where the place
// changes, and at collectives.
#pragma once

#include <memory>
#include <vector>

#include "graph/ir/graph.h"

namespace transom {

bool is_collective(const Node& node);

struct Partition {
  std::vector<std::shared_ptr<Node>> nodes;  // in order; none, where the collective's input is there already
  bool on_host = false;                      // all of them are on_host nodes; else none is
  std::shared_ptr<Node> collective;          // started after them; may be null
};

// Whether the graph cannot run as one program of the device.
bool needs_partition(const Graph& graph);

// The nodes of a lowered graph, each as early as the next collective needs it: the first partitions make the input of
// the first collective and nothing else, the next ones what the second needs besides, and the last all that waits for
// results. Collectives come in the order of their attribute `order`. Those that follow each other with one attribute
// `unit` start together. One with the attribute `late` comes behind all that stands in the graph before the first
// collective of the unit of that number, so that its result is not held for longer than need be; where there is none of
// that number, before its own unit. Between two of them, device and host take turns as seldom as the flow of data
// allows.
std::vector<Partition> partition_graph(const Graph& graph);

}  // namespace transom
