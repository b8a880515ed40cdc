// SPDX-License-Identifier: Apache-2.0
// A program with fixed addresses: captured once, replayed without planning, binding or allocation.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/programs/program.h"

namespace transom {

// For one thread at a time; several captured programs take turns on the device.
class CapturedProgram {
 public:
  // `fixed`: inputs that stay the same buffers in every replay (weights); the others are copied into buffers of its
  // own.
  CapturedProgram(std::shared_ptr<const Program> program, const std::vector<std::shared_ptr<Buffer>>& inputs,
                  const std::vector<bool>& fixed);
  ~CapturedProgram();
  CapturedProgram(const CapturedProgram&) = delete;
  CapturedProgram& operator=(const CapturedProgram&) = delete;

  // One buffer an output of the graph. While somebody still holds results of the replay before, the program is run into
  // new buffers instead: no value ever changes under its holder. Fixed inputs that are given away are updated in place.
  // `spared`: further references to a buffer that do not count as somebody's holding it.
  using CountReferences = std::function<long(const std::shared_ptr<Buffer>&)>;
  std::vector<std::shared_ptr<Buffer>> replay(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                              const CountReferences& spared = {});

  size_t memory_bytes() const;  // of the device, what is its own

  // How many of the references to a buffer are this object's.
  long references_to(const std::shared_ptr<Buffer>& buffer) const;

 private:
  void copy(const Buffer& from, const Buffer& to) const;

  std::shared_ptr<const Program> program_;
  std::vector<std::shared_ptr<Buffer>> inputs_, outputs_;
  size_t own_bytes_ = 0;
  std::vector<bool> may_be_held_;  // outputs
  std::shared_ptr<Buffer> arena_;
  transom_capture* capture_ = nullptr;  // null where the device cannot capture: then each replay is a launch
};

}  // namespace transom
