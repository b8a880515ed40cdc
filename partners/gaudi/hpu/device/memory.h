// SPDX-License-Identifier: Apache-2.0
// Device memory and pinned host memory. Freed blocks are kept: the same sizes come back at every step, and an
// allocation by the driver is slow. A block may be handed out again while work that used it is still queued: new work
// on it is ordered after the old.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "hpu/device/lanes.h"
#include "transom/device_plugin.h"

namespace transom::hpu {

// Not thread-safe: the device locks around it.
class DeviceMemory {
 public:
  DeviceMemory(const SynapseLibrary& library, synDeviceId device, Lanes& lanes);
  ~DeviceMemory();
  // A block of at least so many bytes; null for none. Throws Failure(TRANSOM_OUT_OF_MEMORY), which says who has it.
  std::unique_ptr<Block> allocate(size_t bytes);
  void free(std::unique_ptr<Block> block);
  // Of a size that does not come back: waits for the work that uses it, and gives it to the driver.
  void give_back(std::unique_ptr<Block> block);
  transom_memory_statistics statistics() const;
  void reset_peak() { peak_ = in_use_; }
  static size_t rounded(size_t bytes);  // the size of a block for so many bytes

 private:
  void release_kept();

  const SynapseLibrary& library_;
  synDeviceId device_;
  Lanes& lanes_;
  std::map<size_t, std::vector<std::unique_ptr<Block>>> kept_;
  size_t kept_bytes_ = 0;
  uint64_t in_use_ = 0, peak_ = 0, allocations_ = 0, total_ = 0;
};

// Host memory that the card can reach, for copies. Not thread-safe.
class Staging {
 public:
  Staging(const SynapseLibrary& library, synDeviceId device, Lanes& lanes)
      : library_(library), device_(device), lanes_(lanes) {}
  ~Staging();

  struct Piece {
    void* data = nullptr;
    size_t bytes = 0;
    Lane lane{};
    uint64_t ticket = 0;  // of the copy that uses it
    bool held = false;    // until its contents have been taken
    std::byte* at(size_t offset) const { return static_cast<std::byte*>(data) + offset; }
  };
  // A piece of at least so many bytes that no copy uses.
  Piece& acquire(size_t bytes);

 private:
  const SynapseLibrary& library_;
  synDeviceId device_;
  Lanes& lanes_;
  std::list<Piece> pieces_;
  size_t total_ = 0;
};

}  // namespace transom::hpu
