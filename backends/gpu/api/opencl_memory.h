// SPDX-License-Identifier: Apache-2.0
// Memory objects of OpenCL seen as addresses, for devices without shared virtual memory: each object has a range of
// numbers that no other has, and what lies behind an address is an object and an offset.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "gpu/api/api.h"
#include "gpu/api/opencl_interface.h"

namespace transom::gpu::cl {

class MemoryObjects {
 public:
  struct Place {
    Memory object;
    size_t offset;
  };

  void* add(Memory object, size_t bytes) {
    const std::lock_guard lock(mutex_);
    constexpr uint64_t kPage = 4096;  // between two objects lies what is none's
    const uint64_t begin = next_;
    next_ += (bytes + kPage - 1) / kPage * kPage + kPage;
    objects_[begin] = {object, bytes};
    return reinterpret_cast<void*>(begin);
  }
  // Gives the object back that began there.
  Memory remove(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uint64_t>(address));
    if (found == objects_.end()) return nullptr;
    const Memory object = found->second.object;
    objects_.erase(found);
    return object;
  }
  Place at(const void* address) const {
    const std::lock_guard lock(mutex_);
    const auto place = reinterpret_cast<uint64_t>(address);
    const auto after = objects_.upper_bound(place);
    if (after != objects_.begin()) {
      const auto& [begin, object] = *std::prev(after);
      if (place - begin < object.bytes) return {object.object, place - begin};
    }
    fail(TRANSOM_INTERNAL, "an address of no memory object");
  }

 private:
  struct Object {
    Memory object;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Object> objects_;
  uint64_t next_ = uint64_t{1} << 40;
};

}  // namespace transom::gpu::cl
