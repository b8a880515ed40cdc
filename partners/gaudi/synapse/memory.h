// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated card (device-virtual addresses over pages of the host) and the host buffers that its DMA
// may use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace synapse_emulator {

// Pages of the host behind one allocation; they live until the last user lets go.
class Pages {
 public:
  // Throws std::bad_alloc.
  explicit Pages(uint64_t bytes, bool poison);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
  uint64_t bytes_;
};

// A piece of memory that work uses: where it is, and what keeps it alive.
struct Place {
  char* data = nullptr;
  std::shared_ptr<Pages> pages;  // null for host memory of the caller
};

class DeviceMemory {
 public:
  static constexpr uint64_t kBase = 0x1001000000000000;  // a device-virtual address, never one of the host

  void reset(uint64_t capacity, uint64_t alignment);
  // Throws Failure with synOutOfDeviceMemory.
  uint64_t allocate(uint64_t bytes);
  // Throws a Violation if nothing begins at `address`. Gives the size.
  uint64_t free(uint64_t address);
  // Throws a Violation with `status` unless [address, address + bytes) lies in one allocation. `what` names the user.
  Place place(uint64_t address, uint64_t bytes, int status, const char* what) const;

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;
  uint64_t highest() const;
  size_t count() const;

 private:
  struct Allocation {
    uint64_t bytes;
    std::shared_ptr<Pages> pages;
  };
  mutable std::mutex mutex_;
  uint64_t capacity_ = 0, alignment_ = 128, used_ = 0, highest_ = 0;
  std::map<uint64_t, Allocation> allocations_;
};

// Host buffers that were mapped to the device.
class HostMappings {
 public:
  void* allocate(uint64_t bytes);
  void free(const void* buffer);
  void map(const void* buffer, uint64_t bytes);
  void unmap(const void* buffer);
  // Throws a Violation (synMappingNotFound) unless [address, address + bytes) lies in one mapped buffer.
  Place place(uint64_t address, uint64_t bytes) const;
  size_t allocated() const;
  size_t mapped() const;
  void clear();

 private:
  struct Mapping {
    uint64_t bytes;
    std::shared_ptr<Pages> pages;  // null if the caller's own
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Mapping> mappings_;
};

}  // namespace synapse_emulator
