// SPDX-License-Identifier: Apache-2.0
// A graph that the device has compiled whole.
#pragma once

#include "runtime/programs/executable.h"

namespace transom {

class DeviceProgram : public Executable {
 public:
  // The graph's outputs are distinct, and none is an input. `restorable`: see ProgramOptions; empty: none. Throws
  // NotSupported where the device refuses the graph.
  DeviceProgram(const std::shared_ptr<Device>& device, const Graph& graph, const MemoryPlan& plan,
                const std::vector<bool>& frozen, std::vector<bool> restorable = {}, std::string* description = nullptr);
  // For a graph of the same structure: shares the executable.
  DeviceProgram(const DeviceProgram& equal, const Graph& graph);

  Buffers run(const Buffers& inputs) const override;
  bool updates(size_t input) const override;
  size_t arena_bytes() const override { return compiled_->arena_bytes; }
  size_t temporary_bytes() const override;
  std::vector<ProgramPiece> pieces() const override;

  // ---- the parts of a run, for who captures it
  Device& device() const { return *compiled_->device; }
  const ProgramNodes& nodes() const { return nodes_; }
  // The input whose memory an output takes, or -1.
  int donor(size_t output) const { return compiled_->donor[output]; }
  // What the outputs go to: the buffers of donated inputs, and new ones.
  Buffers output_buffers(const Buffers& inputs) const;
  // For who has the device's turn. `arena` may be null where arena_bytes() is 0.
  void launch(const Buffers& inputs, const Buffers& outputs, const Buffer* arena) const;
  // Throws if a launch with these inputs ended with an error, after noting which of them it may have written over.
  void expect_done(transom_status status, const transom_error& error, const Buffers& inputs) const;

 private:
  // What programs of equal graphs share.
  struct Compiled {
    std::shared_ptr<Device> device;
    transom_executable* executable = nullptr;
    std::vector<size_t> output_bytes;
    std::vector<int> donor;
    std::vector<bool> restorable;      // by input
    std::vector<bool> reads_deferred;  // by input: whether the device reads what is not written yet by itself
    size_t arena_bytes = 0;

    ~Compiled();
  };

  std::shared_ptr<const Compiled> compiled_;
  ProgramNodes nodes_;  // as the device has them, for profiles
};

}  // namespace transom
