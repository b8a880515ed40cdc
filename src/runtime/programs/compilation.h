// SPDX-License-Identifier: Apache-2.0
// What the compiler did, step by step, for explanations: recorded only while somebody asks for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/passes/memory_plan.h"
#include "runtime/programs/executable.h"

namespace transom {

struct Compilation {
  struct Pass {
    std::string name;  // "trace": the graph before the first one
    Graph graph;
    double seconds = 0;
  };
  std::vector<Pass> passes;
  Graph graph;  // what the device compiled, or what was cut into partitions
  MemoryPlan plan;
  std::vector<bool> donated;
  std::vector<bool> frozen;  // of the traced graph's inputs; constants that were folded are behind them
  std::vector<ProgramPiece> pieces;
  std::string description;  // what the device says of each node; empty if it does not
  double seconds = 0;       // of it all
  std::shared_ptr<const Executable> executable;
};

// While one lives, all compilations of the process are kept in it; one at a time.
class RecordCompilations {
 public:
  RecordCompilations();
  ~RecordCompilations();
  RecordCompilations(const RecordCompilations&) = delete;
  RecordCompilations& operator=(const RecordCompilations&) = delete;

  std::vector<std::shared_ptr<const Compilation>> compilations() const;

  static bool active();
  static void add(std::shared_ptr<const Compilation> compilation);
};

}  // namespace transom
