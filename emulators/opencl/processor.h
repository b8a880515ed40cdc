// SPDX-License-Identifier: Apache-2.0
// Kernels of OpenCL C on the processor: compiled by tcc in a few milliseconds, run one group after the other on the
// calling thread. The work-items of a group whose kernel has barriers are fibers, which take turns in one order between
// two barriers and in the other order after the next one, so that what a forgotten barrier leaves to chance differs.
#pragma once

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
  std::string name_;
  void* library_ = nullptr;
  Entry entry_ = nullptr;
  size_t argument_count_ = 0;
  bool has_barriers_ = false;
};

}  // namespace emulator
