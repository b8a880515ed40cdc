// SPDX-License-Identifier: Apache-2.0
// What runs a lowered graph: a program of the device, or one that is cut into partitions.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/programs/lower.h"
#include "runtime/programs/profile.h"
#include "transom/error.h"

namespace transom {

using Buffers = std::vector<std::shared_ptr<Buffer>>;

// What one device runs of a lowered graph.
struct ProgramPiece {
  ProgramNodes nodes;          // as the device has them, for profiles
  std::vector<size_t> places;  // of each of them in the lowered graph; on_host nodes of the host's pieces
  bool on_host = false;
};

// Immutable; any number of threads may run one at once: they take turns on the device.
class Executable {
 public:
  Executable() = default;
  virtual ~Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Takes one buffer an input of the lowered graph and gives one an output, which may be that of a donated input.
  // Throws an Error where the device fails; donated inputs that may be written over then say so (Buffer::overwritten).
  virtual Buffers run(const Buffers& inputs) const = 0;

  // Whether an output always takes the memory of this input.
  virtual bool updates(size_t input) const = 0;
  virtual size_t arena_bytes() const = 0;  // of the device, while it runs
  // With the workspace that the device takes itself, as far as it tells; what was left to compile may be compiled.
  virtual size_t temporary_bytes() const { return arena_bytes(); }
  virtual std::vector<ProgramPiece> pieces() const = 0;
  virtual size_t executables() const { return 1; }  // of the device, that were compiled for it
};

// A graph that the device refuses to compile, though its plugin could: see NodeSupport.
class NotSupported : public Error {
  using Error::Error;
};

// A program of the device, or partitions where the graph needs them (see passes/partition.h). `description`, where it
// is not null, gets what the device says of its nodes. Throws NotSupported.
std::unique_ptr<Executable> make_executable(const std::shared_ptr<Device>& device, const LoweredGraph& lowered,
                                            std::string* description = nullptr);

}  // namespace transom
