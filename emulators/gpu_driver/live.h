// SPDX-License-Identifier: Apache-2.0
// What the look-alikes of the vendors' libraries have in common: the start of a call, and the handles that are alive.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "device.h"

// The device of the thread, locked; a library's own status `kNotStarted` where there is none.
#define ENTER                                \
  emulator::Gpu& gpu = emulator::Gpu::get(); \
  const std::lock_guard lock(gpu.mutex);     \
  if (gpu.begin(true) != emulator::kSuccess) return kNotStarted

namespace emulator {

// Handles of one sort, of all devices, whose threads may come at once. Who never destroys them is told: no more than
// `most` are made.
template <typename T>
class Live {
 public:
  explicit Live(size_t most) : most_(most) {}
  bool make(void** to, T value = {}) {
    const std::lock_guard lock(mutex_);
    if (!to || all_.size() >= most_) return false;
    auto made = std::make_unique<T>(std::move(value));
    *to = made.get();
    all_.emplace(*to, std::move(made));
    return true;
  }
  bool destroy(void* handle) {
    const std::lock_guard lock(mutex_);
    return all_.erase(handle) != 0;
  }
  bool contains(void* handle) const { return find(handle) != nullptr; }
  // Null where the handle is none of these.
  T* find(void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : found->second.get();
  }

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<T>> all_;
};

}  // namespace emulator
