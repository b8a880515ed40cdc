// SPDX-License-Identifier: Apache-2.0
// A compiled graph on a device, and the cache that finds it again.
#pragma once

#include <memory>
#include <vector>

#include "runtime/programs/device_program.h"
#include "transom/caches.h"

namespace transom {

// A traced graph compiled for a device: what is computed once from frozen inputs, and an Executable for the rest. Any
// number of threads may run a program at once: they take turns on the device.
class Program {
 public:
  // What the device does not support runs on the host, as far as the options allow it. Throws an Error of kind kDevice
  // where it can run nowhere.
  Program(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // One buffer an output of the graph. If the device fails midway, donated inputs that may be written over say so
  // (Buffer::overwritten).
  Buffers run(const Buffers& inputs) const;

  size_t arena_bytes() const { return executable_->arena_bytes(); }
  size_t memory_bytes() const;  // of the host, about
  // Whether an output takes the memory of this input.
  bool updates(size_t input) const { return executable_->updates(input); }
  // Of the device and of the host; one where the device runs it as a whole.
  std::vector<ProgramPiece> pieces() const { return executable_->pieces(); }
  size_t executables() const { return executable_->executables(); }

 private:
  friend class CapturedProgram;

  // The graph's outputs among what the executable gives and the inputs.
  Buffers results(const Buffers& inputs, const Buffers& outputs) const;
  // The graph's inputs and, behind them, what is computed from the frozen ones: at the first run, then kept with them.
  Buffers with_folded(const Buffers& inputs) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Executable> executable_;
  const DeviceProgram* whole_ = nullptr;  // the executable, where it is one program of the device
  std::vector<LoweredGraph::Source> sources_;
  std::vector<FoldedConstant> folded_;
  size_t count_ = 0;  // of nodes
};

// Compiled once for each structure, set of options and device; see caches.h.
std::shared_ptr<const Program> find_program(const std::shared_ptr<Device>& device, const Graph& graph,
                                            const ProgramOptions& options);

// Drops those of the programs from the cache that nothing but the cache and the list holds.
void forget_programs(const std::vector<std::shared_ptr<const Program>>& programs);

CacheUse program_cache_use();
void trim_program_cache();

}  // namespace transom
