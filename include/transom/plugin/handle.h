// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace transom::backend {

// A base of what the interface's handles stand for on a plugin's one device: memory_statistics says how many live.
struct Handle {
  Handle() { ++live; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { --live; }
  static inline std::atomic<uint64_t> live{0};
};

}  // namespace transom::backend
