// SPDX-License-Identifier: Apache-2.0
// Nodes that the device does not run, on the reference device, with copies there and back.
#pragma once

#include "runtime/programs/device_program.h"

namespace transom {

class HostProgram : public Executable {
 public:
  // `graph` holds on_host nodes only; `device` is whose buffers it takes and gives. Throws an Error of kind kDevice
  // where there is no reference device.
  HostProgram(std::shared_ptr<Device> device, const Graph& graph);

  // Waits for the device.
  Buffers run(const Buffers& inputs) const override;
  bool updates(size_t) const override { return false; }
  size_t arena_bytes() const override { return 0; }
  std::vector<ProgramPiece> pieces() const override;

 private:
  std::shared_ptr<Device> device_, host_;
  std::unique_ptr<DeviceProgram> program_;
  std::vector<LoweredGraph::Source> outputs_;
  size_t count_;  // of on_host nodes
};

}  // namespace transom
