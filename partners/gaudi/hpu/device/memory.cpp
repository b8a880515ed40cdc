// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/memory.h"

#include <algorithm>
#include <bit>

namespace transom::hpu {

DeviceMemory::DeviceMemory(const SynapseLibrary& library, synDeviceId device, Lanes& lanes)
    : library_(library), device_(device), lanes_(lanes) {
  uint64_t free = 0;
  library.expect(library.synDeviceGetMemoryInfo(device, &free, &total_), "asking for the size of device memory");
}

DeviceMemory::~DeviceMemory() {
  for (auto& [bytes, blocks] : kept_)
    for (const auto& block : blocks) library_.synDeviceFree(device_, block->address, 0);
}

// Size classes an eighth apart, so that blocks of padded batches of nearly one size are interchangeable.
size_t DeviceMemory::rounded(size_t bytes) {
  constexpr size_t kSmallest = 512;
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::max(std::bit_floor(bytes) / 8, kSmallest);
  return (bytes + step - 1) / step * step;
}

std::unique_ptr<Block> DeviceMemory::allocate(size_t bytes) {
  if (bytes == 0) return std::make_unique<Block>();
  if (bytes > total_) fail(TRANSOM_OUT_OF_MEMORY, "{} bytes were asked for at once, the device has {}", bytes, total_);
  const size_t size = rounded(bytes);
  std::unique_ptr<Block> block;
  if (auto& kept = kept_[size]; !kept.empty()) {
    block = std::move(kept.back());
    kept.pop_back();
    kept_bytes_ -= size;
  } else {
    block = std::make_unique<Block>();
    block->bytes = size;
    synStatus status = library_.synDeviceMalloc(device_, size, 0, 0, &block->address);
    if (status_of(status) == TRANSOM_OUT_OF_MEMORY && kept_bytes_) {
      release_kept();
      status = library_.synDeviceMalloc(device_, size, 0, 0, &block->address);
    }
    if (status_of(status) == TRANSOM_OUT_OF_MEMORY)
      fail(TRANSOM_OUT_OF_MEMORY, "{} bytes were asked for, {} of the device's {} are in use; make the batch smaller",
           bytes, in_use_, total_);
    library_.expect(status, "allocating device memory");
  }
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  ++allocations_;
  return block;
}

void DeviceMemory::free(std::unique_ptr<Block> block) {
  if (!block || !block->bytes) return;
  in_use_ -= block->bytes;
  kept_bytes_ += block->bytes;
  kept_[block->bytes].push_back(std::move(block));
}

void DeviceMemory::give_back(std::unique_ptr<Block> block) {
  if (!block || !block->bytes) return;
  lanes_.wait_for_all();
  library_.synDeviceFree(device_, block->address, 0);
  in_use_ -= block->bytes;
}

void DeviceMemory::release_kept() {
  lanes_.wait_for_all();
  for (auto& [bytes, blocks] : kept_) {
    for (const auto& block : blocks) library_.synDeviceFree(device_, block->address, 0);
    blocks.clear();
  }
  kept_bytes_ = 0;
}

transom_memory_statistics DeviceMemory::statistics() const {
  return {.struct_size = sizeof(transom_memory_statistics),
          .bytes_in_use = in_use_,
          .peak_bytes_in_use = peak_,
          .bytes_limit = total_,
          .allocations = allocations_};
}

Staging::~Staging() {
  for (const Piece& piece : pieces_) library_.synHostFree(device_, piece.data, 0);
}

Staging::Piece& Staging::acquire(size_t bytes) {
  constexpr size_t kSmallest = size_t{64} << 10, kMost = size_t{512} << 20;
  const auto is_free = [&](const Piece& piece) { return !piece.held && lanes_.done(piece.lane, piece.ticket); };
  const auto find = [&] {
    return std::find_if(pieces_.begin(), pieces_.end(),
                        [&](const Piece& piece) { return piece.bytes >= bytes && is_free(piece); });
  };
  auto found = find();
  if (found == pieces_.end() && total_ + bytes > kMost) {
    lanes_.wait_for_all();
    found = find();
    for (auto piece = pieces_.begin(); found == pieces_.end() && piece != pieces_.end();) {
      if (!is_free(*piece)) {
        ++piece;
        continue;
      }
      library_.synHostFree(device_, piece->data, 0);
      total_ -= piece->bytes;
      piece = pieces_.erase(piece);
    }
  }
  if (found != pieces_.end()) return *found;
  Piece piece;
  piece.bytes = std::bit_ceil(std::max(bytes, kSmallest));
  library_.expect(library_.synHostMalloc(device_, piece.bytes, 0, &piece.data), "allocating pinned host memory");
  total_ += piece.bytes;
  return pieces_.emplace_back(piece);
}

}  // namespace transom::hpu
