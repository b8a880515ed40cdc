// SPDX-License-Identifier: Apache-2.0
// Where each value of a graph lives: in one arena, by lifetime; element-wise results on inputs that die there.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom {

struct MemoryPlan {
  TensorMap<int64_t> offsets;  // of all values but inputs and outputs of the graph; bytes, multiples of 64
  int64_t arena_bytes = 0;
  int64_t live_maximum = 0;  // bytes that live at once in the arena at the worst place: what no plan can go below
  // For each output the input whose memory it takes, or -1. Only inputs that were given away.
  std::vector<int> donor;
};

// `donated[i]`: input i is not needed after the run. `restorable[i]`: it is donated, yet wanted back if the run fails:
// its memory is taken by nodes from the place `first_update` on alone (see updates_last.h). Empty: none is.
MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& donated, const std::vector<bool>& restorable = {},
                       size_t first_update = 0);

// The live maximum alone, without a plan.
int64_t live_maximum(const Graph& graph);

}  // namespace transom
