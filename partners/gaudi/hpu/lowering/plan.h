// SPDX-License-Identifier: Apache-2.0
// How a graph is carried out: which nodes the device runs, which the host, and in which segments. Recipes and host work
// alternate; as few segments are made as the graph's order allows.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hpu/lowering/emitter.h"
#include "hpu/lowering/node.h"

namespace transom::hpu {

// A node with its values by number.
struct Step {
  Node node;
  std::vector<size_t> inputs, outputs;
  size_t source;  // the node of the compiled graph that it stands for
  bool on_host = false;
  bool anywhere = false;  // made of constants only: made again wherever it is needed
  size_t segment = 0;     // of a step that is not made anywhere
};

struct Segment {
  bool on_host;
  std::vector<size_t> steps;            // in order
  std::vector<size_t> inputs, outputs;  // values that come from, or go, outside
};

struct Plan {
  std::vector<Type> values;
  std::vector<Step> steps;
  std::vector<size_t> inputs, outputs;    // of the graph
  std::vector<Segment> segments;          // none of them empty
  std::vector<std::string> host_reasons;  // of each step, why the host runs it
};

// Throws Failure where the graph breaks the interface, or nobody can run a node.
Plan make_plan(const transom_graph& graph, synDeviceType device, bool int64);

}  // namespace transom::hpu
