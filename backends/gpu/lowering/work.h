// SPDX-License-Identifier: Apache-2.0
// What lowering makes of a graph: a list of launches, each a kernel text with its operands.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/node.h"
#include "gpu/source/kernel_text.h"

namespace transom::gpu {

using backend::Node;

struct PlannedLaunch {
  std::string text;  // of the kernel
  uint64_t groups;
  std::vector<Operand> operands;
  std::vector<int64_t> numbers;
  size_t node;        // of the graph
  std::string label;  // for profiles and `transom explain`
};

// One node on its way to launches.
struct Work {
  const Node& node;
  std::vector<Operand> inputs, outputs;
  const transom_graph* region = nullptr;  // of "fusion" and "row_fusion"
};

class Emitter {
 public:
  explicit Emitter(const Facts& facts, Dialect dialect) : facts_(facts), dialect_(dialect) {}

  const Facts& facts() const { return facts_; }

  // Memory that belongs to the node that is being lowered.
  Operand scratch(int64_t bytes);
  void launch(const KernelText& text, int64_t groups, std::string label);

  void begin_node(size_t node) { node_ = node, scratch_ = 0; }
  std::vector<PlannedLaunch> launches;
  size_t scratch_bytes = 0;  // that the launches need

 private:
  const Facts& facts_;
  Dialect dialect_;
  size_t node_ = 0;
  size_t scratch_ = 0;
};

// Groups for a loop over `count` elements in which each thread takes every (groups * kGroup)-th.
int64_t groups_for(int64_t count, int64_t a_thread = 4);

// The loop itself: "for (idx <name> = ...; ...)" over [0, count).
std::string loop_over(const std::string& name, const std::string& count);

}  // namespace transom::gpu
