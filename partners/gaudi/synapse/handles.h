// SPDX-License-Identifier: Apache-2.0
// Handles that are given out: never the address of anything, never used twice, so that a stale one is always known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "call.h"

namespace synapse_emulator {

template <typename T>
class Handles {
 public:
  // `kind` is the top byte of each handle; `name` what error texts call it.
  Handles(uint8_t kind, const char* name) : kind_(kind), name_(name) {}

  template <typename Handle>
  Handle add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    const uint64_t value = (uint64_t{kind_} << 40) + 16 * ++given_;
    objects_.emplace(value, std::move(object));
    return reinterpret_cast<Handle>(value);
  }
  // Throws a Violation with `status` for what is no live handle of this kind.
  std::shared_ptr<T> get(const void* handle, int status = synInvalidArgument) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    if (found == objects_.end()) {
      const bool was_given = reinterpret_cast<uint64_t>(handle) >> 40 == kind_;
      throw Violation{status, "handle",
                      join(name_, " handle ", handle,
                           handle == nullptr ? " is null"
                           : was_given       ? " was destroyed before"
                                             : " was never given out")};
    }
    return found->second;
  }
  std::shared_ptr<T> take(const void* handle, int status = synInvalidArgument) {
    std::shared_ptr<T> object = get(handle, status);
    const std::lock_guard lock(mutex_);
    objects_.erase(reinterpret_cast<uint64_t>(handle));
    return object;
  }
  void forget(const void* handle) {
    const std::lock_guard lock(mutex_);
    objects_.erase(reinterpret_cast<uint64_t>(handle));
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }
  std::vector<std::shared_ptr<T>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (const auto& [handle, object] : objects_) result.push_back(object);
    return result;
  }
  void clear() {
    std::map<uint64_t, std::shared_ptr<T>> old;
    {
      const std::lock_guard lock(mutex_);
      old.swap(objects_);
    }
  }
  const char* name() const { return name_; }

 private:
  const uint8_t kind_;
  const char* name_;
  mutable std::mutex mutex_;
  uint64_t given_ = 0;
  std::map<uint64_t, std::shared_ptr<T>> objects_;
};

}  // namespace synapse_emulator
