// SPDX-License-Identifier: Apache-2.0
// A compiled graph of the reference device: its nodes with their records looked up and their types checked.
#pragma once

#include <string>
#include <vector>

#include "ir/operation.h"
#include "reference/handles.h"
#include "transom/device_plugin.h"

struct transom_executable : Handle {
 public:
  // Throw transom::Error where the graph, or what is bound to it, breaks the interface.
  explicit transom_executable(const transom_graph& graph);
  void run(const transom_launch& launch) const;

  const std::string& description() const { return description_; }

 private:
  struct Value {
    transom::Type type;
    int64_t arena_offset;
  };
  struct Step {
    const transom::Operation* operation;
    transom::Attributes attributes;
    std::vector<size_t> inputs, outputs;
    std::string scope;
  };

  Step read_step(const transom_node& node) const;
  size_t checked_value(int32_t value) const;

  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<size_t> inputs_, outputs_;
  size_t arena_size_;
  std::string description_;
};
