// SPDX-License-Identifier: Apache-2.0
// From the graph of a trace to what a device compiles. No device is needed: a description of one is enough, so that
// what it would run can be asked of hardware that is not here.
#pragma once

#include <vector>

#include "graph/passes/fold_constants.h"
#include "graph/passes/memory_plan.h"
#include "graph/passes/passes.h"

namespace transom {

// What a program is compiled for, besides its structure. Lists may be shorter than the inputs: the rest is false.
struct ProgramOptions {
  std::vector<bool> donated;  // inputs that are not needed after the run: outputs may take their memory
  std::vector<bool> frozen;   // inputs that keep their contents from run to run
  bool host_fallback = true;  // what the device does not support runs on the host; else it is an error
  // Donated inputs that are wanted back if the run fails: what takes their memory is computed when all else is done
  // (passes/updates_last.h), so that a fault of the data or a want of memory leaves them as they are.
  std::vector<bool> restorable;
};

// What the compiler asks of a device; runtime/node_support.h describes an opened one. The functions may be asked from
// any thread.
struct CompileTarget {
  // Whether it runs a composite whole, or a fusion (of the record alone, without inputs). Must be set.
  Supports supports;
  // Whether it runs a node of the lowered graph; null: each.
  Supports runs;
};

// A device that runs the composites of these names ("softmax", "fusion") whole, and every primitive.
CompileTarget compile_target(std::vector<std::string> composites);

struct LoweredGraph {
  // Its outputs are distinct, and none is an input. Behind the inputs of the trace stand those that `folded` gives.
  Graph graph;
  std::vector<bool> donated, frozen, restorable;  // by input
  size_t first_update = 0;                        // the place of the first node that may write to a restorable input
  std::vector<FoldedConstant> folded;             // to be computed once
  struct Source {
    bool is_input;
    size_t index;
  };
  std::vector<Source> outputs;  // for each output of the trace: an output of the graph, or an input
  MemoryPlan plan;
};

// Folds constants, runs the passes and plans memory. `observe` is called with the graph before the first pass ("trace")
// and after each.
LoweredGraph lower(const Graph& traced, const CompileTarget& device, const ProgramOptions& options,
                   const std::function<void(std::string_view pass, const Graph&)>& observe = {});

}  // namespace transom
