// SPDX-License-Identifier: Apache-2.0
// Machine code that was checked, made executable. Memory is never writable and executable at one time.
#pragma once

#include <cstddef>

#include "cpu/codegen/image.h"

namespace transom::cpu::codegen {

// Null where there is no code, or the system does not allow it.
class ExecutableMemory {
 public:
  ExecutableMemory() = default;
  explicit ExecutableMemory(const Code& code);
  ~ExecutableMemory();
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;
  ExecutableMemory(ExecutableMemory&& other) noexcept;
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept;

  void* entry() const { return memory_ ? static_cast<std::byte*>(memory_) + entry_ : nullptr; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0, entry_ = 0;
};

}  // namespace transom::cpu::codegen
