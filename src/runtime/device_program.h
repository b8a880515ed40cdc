// SPDX-License-Identifier: Apache-2.0
// A graph that the device has compiled whole.
#pragma once

#include "runtime/executable.h"

namespace transom {

class DeviceProgram : public Executable {
 public:
  // The graph's outputs are distinct, and none is an input. `restorable`: see ProgramOptions; empty: none. Throws
  // NotSupported where the device refuses the graph.
  DeviceProgram(std::shared_ptr<Device> device, const Graph& graph, const MemoryPlan& plan,
                const std::vector<bool>& frozen, std::vector<bool> restorable = {}, std::string* description = nullptr);
  ~DeviceProgram() override;

  Buffers run(const Buffers& inputs) const override;
  bool updates(size_t input) const override;
  size_t arena_bytes() const override { return arena_bytes_; }
  size_t temporary_bytes() const override;
  std::vector<ProgramPiece> pieces() const override;

  // ---- the parts of a run, for who captures it
  Device& device() const { return *device_; }
  const ProgramNodes& nodes() const { return nodes_; }
  // The input whose memory an output takes, or -1.
  int donor(size_t output) const { return donor_[output]; }
  // What the outputs go to: the buffers of donated inputs, and new ones.
  Buffers output_buffers(const Buffers& inputs) const;
  // For who has the device's turn. `arena` may be null where arena_bytes() is 0.
  void launch(const Buffers& inputs, const Buffers& outputs, const Buffer* arena) const;
  // Throws if a launch with these inputs ended with an error, after noting which of them it may have written over.
  void expect_done(transom_status status, const transom_error& error, const Buffers& inputs) const;

 private:
  std::shared_ptr<Device> device_;
  transom_executable* executable_ = nullptr;
  std::vector<size_t> output_bytes_;
  std::vector<int> donor_;
  std::vector<bool> restorable_;      // by input
  std::vector<bool> reads_deferred_;  // by input: whether the device reads what is not written yet by itself
  size_t arena_bytes_ = 0;
  ProgramNodes nodes_;  // as the device has them, for profiles
};

}  // namespace transom
