// SPDX-License-Identifier: Apache-2.0
// Memory of the device: blocks aligned to 64 bytes, huge pages for large ones. Freed blocks are kept for the next
// request of their size class, since the host allocates the same outputs at every step and fresh pages cost more than
// most kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cpu/collectives/completion.h"
#include "cpu/device/lru_cache.h"
#include "cpu/device/threads.h"
#include "transom/deferred_memory.h"
#include "transom/plugin/handle.h"

namespace transom::cpu {

class Allocator {
 public:
  ~Allocator();
  static size_t size_of(size_t bytes);  // of the block that allocate(bytes) gives
  std::byte* allocate(size_t bytes);    // throws Failure(TRANSOM_OUT_OF_MEMORY)
  void free(std::byte* block, size_t bytes);
  transom_memory_statistics statistics();
  void reset_peak();  // to what is in use

 private:
  void release_kept(size_t keep);

  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> kept_;  // by rounded size
  size_t kept_bytes_ = 0;
  uint64_t in_use_ = 0, peak_ = 0, allocations_ = 0;
};

using backend::Handle;

// Physical memory of the machine in bytes, 0 if not known.
uint64_t physical_memory();

// A weight in the layout that the matrix library likes best; built at the first run that needs it.
struct PackedWeight {
  virtual ~PackedWeight() = default;
};

// Memory for packed weights, aligned to 64 bytes. Many share a few blocks of huge pages: a product reads its weight
// from end to end at each run, and where pages are small the processor's prefetching stops at each of their ends.
using PackedMemory = std::shared_ptr<std::byte>;
PackedMemory allocate_packed(size_t bytes);  // throws Failure(TRANSOM_OUT_OF_MEMORY)

}  // namespace transom::cpu

struct transom_buffer : transom::cpu::Handle {
  std::byte* data = nullptr;
  size_t bytes = 0;
  transom::cpu::Allocator* allocator = nullptr;  // null: imported, not ours to free
  const transom_deferred* deferred = nullptr;    // of codes that may not be written yet
  const transom_deferred_parts* deferred_parts = nullptr;

  // Packed copies of frozen contents: of what lies at an offset a few, by what the kernels that want them write into
  // the key.
  using PackedCopies = transom::cpu::LruCache<std::vector<int64_t>, transom::cpu::PackedWeight>;
  std::mutex packed_mutex;
  std::map<size_t, PackedCopies> packed;
  std::set<std::pair<size_t, std::vector<int64_t>>> used;  // keys of copies that are made at the second use

  // The last collective that uses the memory, which stays until it is done.
  std::shared_ptr<transom::cpu::Completion> pending;
  void use_by(std::shared_ptr<transom::cpu::Completion> collective) { pending = std::move(collective); }

  ~transom_buffer() {
    if (pending) pending->wait();
    if (allocator) allocator->free(data, bytes);
  }
};

namespace transom::cpu {

// The packed copy of what lies at the offset that a kernel keeps with a frozen buffer under its key; made at the first
// call. More layouts of one weight than are kept at a time would be packed again and again; the library has fewer.
template <typename Make>
std::shared_ptr<PackedWeight> packed_copy(transom_buffer& buffer, size_t offset, const std::vector<int64_t>& key,
                                          Make&& make) {
  constexpr size_t kMostLayouts = 8;
  std::unique_lock lock(buffer.packed_mutex);
  transom_buffer::PackedCopies& copies = buffer.packed.try_emplace(offset, kMostLayouts).first->second;
  lock.unlock();  // entries of a map stay where they are
  return copies.find(key, [&] {
    auto made = make();
    if (!buffer.allocator && the_host.release) the_host.release(buffer.data, buffer.bytes);
    return made;
  });
}

// Whether this was asked for what lies at the offset, and the key, before.
bool used_before(transom_buffer& buffer, size_t offset, const std::vector<int64_t>& key);

}  // namespace transom::cpu
