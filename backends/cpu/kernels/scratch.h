// SPDX-License-Identifier: Apache-2.0
// The calling thread's scratch memory in parts, one behind the other.
#pragma once

#include "cpu/device/threads.h"

namespace transom::cpu {

// As scratch memory is.
inline size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

class Scratch {
 public:
  explicit Scratch(size_t bytes) : next_(thread_scratch(bytes)) {}
  template <typename T>
  T* take(int64_t count) {
    std::byte* at = next_;
    next_ += bytes_of<T>(count);
    return reinterpret_cast<T*>(at);
  }
  template <typename T>
  static size_t bytes_of(int64_t count) {
    return aligned(static_cast<size_t>(count) * sizeof(T));
  }

 private:
  std::byte* next_;
};

}  // namespace transom::cpu
