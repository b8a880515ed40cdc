// SPDX-License-Identifier: Apache-2.0
// A compiled graph on a device, and the cache that finds it again.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "ir/graph.h"
#include "passes/fold_constants.h"
#include "runtime/profile.h"
#include "transom/caches.h"

namespace transom {

struct Compilation;

// What a program is compiled for, besides its structure.
struct ProgramOptions {
  std::vector<bool> donated;  // inputs that are not needed after the run: outputs may take their memory
  std::vector<bool> frozen;   // inputs that keep their contents from run to run
  // Donated inputs that are wanted back if the run fails: what takes their memory is computed when all else is done
  // (passes/updates_last.h), so that a fault of the data or a want of memory leaves them as they are.
  std::vector<bool> restorable;
};

class CollectiveProgram;
struct AlreadyLowered {};  // of a graph: it has been through the passes

// Any number of threads may run a program at once: they take turns on the device.
class Program {
 public:
  Program(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options);
  Program(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options, AlreadyLowered);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // One buffer an output of the graph. If the device fails midway, donated inputs that may be written over say so
  // (Buffer::overwritten).
  std::vector<std::shared_ptr<Buffer>> run(const std::vector<std::shared_ptr<Buffer>>& inputs) const;

  size_t arena_bytes() const { return arena_bytes_; }
  size_t memory_bytes() const;  // of the host, about
  // Whether an output takes the memory of this input.
  bool updates(size_t input) const;

 private:
  friend class CapturedProgram;

  void compile(const Graph& lowered, const ProgramOptions& options, Compilation* record);

  // The buffers that the executable's outputs go to: those of donated inputs, and new ones.
  std::vector<std::shared_ptr<Buffer>> output_buffers(const std::vector<std::shared_ptr<Buffer>>& inputs) const;
  void launch(const std::vector<std::shared_ptr<Buffer>>& inputs, const std::vector<std::shared_ptr<Buffer>>& outputs,
              const Buffer* arena) const;
  // Throws if a launch with these inputs ended with an error, after noting which of them it may have written over.
  void expect_done(transom_status status, const transom_error& error,
                   const std::vector<std::shared_ptr<Buffer>>& inputs) const;
  std::vector<std::shared_ptr<Buffer>> results(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                               const std::vector<std::shared_ptr<Buffer>>& outputs) const;

  // The graph's inputs and, behind them, what is computed from the frozen ones: at the first run, then kept with them.
  std::vector<std::shared_ptr<Buffer>> with_folded(const std::vector<std::shared_ptr<Buffer>>& inputs) const;

  // Where an output of the graph comes from: an output of the executable, or straight from an input.
  struct Source {
    bool is_input;
    size_t index;
  };
  std::shared_ptr<Device> device_;
  transom_executable* executable_ = nullptr;
  std::vector<Source> sources_;
  std::vector<size_t> output_bytes_;
  std::vector<int> donor_;
  std::vector<bool> restorable_;
  size_t arena_bytes_ = 0;
  std::vector<FoldedConstant> folded_;
  ProgramNodes nodes_;                             // as the device has them, for profiles
  std::unique_ptr<CollectiveProgram> collective_;  // does it all, where the graph has collectives and a group
};

// Compiled once for each structure, set of options and device; see caches.h.
std::shared_ptr<const Program> find_program(const std::shared_ptr<Device>& device, const Graph& graph,
                                            const ProgramOptions& options);

CacheUse program_cache_use();
void trim_program_cache();

}  // namespace transom
