// SPDX-License-Identifier: Apache-2.0
// Kernels of OpenCL C on the processor: compiled by tcc in a few milliseconds, by cc with optimisation once they have
// run for a while (the same bits), and run one group after the other on the calling thread. The work-items of a group
// whose kernel has barriers are fibers, which take turns in one order between two barriers and in the other order after
// the next one, so that what a forgotten barrier leaves to chance differs.
#pragma once

#include "access_checker.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

// The last kernel of a text, compiled. Throws std::runtime_error with the compiler's words.
class Kernel {
 public:
  explicit Kernel(const std::string& text);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return name_; }
  size_t argument_count() const { return argument_count_; }
  // Runs `groups` groups of `items` work-items. Arguments are addresses and numbers of 64 bits.
  void run(size_t groups, size_t items, const std::vector<uint64_t>& arguments) const;

 private:
  using Entry = void (*)(const uint64_t* arguments);
  void take(void* library) const;
  void optimise() const;

  std::string name_, whole_;  // its text in C
  // What runs, and for how long it has; under the lock of the processor.
  mutable void* library_ = nullptr;
  mutable Entry entry_ = nullptr;
  mutable double seconds_ = 0;
  mutable bool optimised_ = false;
  mutable Extent memory_;  // of its group, and its constants: where accesses are checked
  size_t argument_count_ = 0;
  bool has_barriers_ = false;
};

}  // namespace emulator
