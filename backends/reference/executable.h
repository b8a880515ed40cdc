// SPDX-License-Identifier: Apache-2.0
// A compiled graph of the reference device: its nodes with their records looked up and their types checked.
#pragma once

#include <string>
#include <vector>

#include "graph/ops/plugin_nodes.h"
#include "reference/handles.h"
#include "transom/device_plugin.h"

struct transom_executable : Handle {
 public:
  // Throw transom::Error where the graph, or what is bound to it, breaks the interface.
  explicit transom_executable(const transom_graph& graph);
  void run(const transom_launch& launch) const;

  const std::string& description() const { return description_; }

 private:
  size_t checked_value(int32_t value) const;

  std::vector<transom::Type> types_;  // of the values
  std::vector<int64_t> offsets_;      // in the arena; -1: bound at each run
  std::vector<transom::PrimitiveNode> steps_;
  std::vector<size_t> inputs_, outputs_;
  size_t arena_size_;
  std::string description_;
};
