// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "cpu/device/error.h"

namespace transom::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPackedBlock = size_t{16} << 20;
#if defined(__SANITIZE_ADDRESS__)  // a sanitizer should see every free, and where a block ends
constexpr size_t kAlwaysKept = 0;
constexpr bool kExact = true;
#else
constexpr size_t kAlwaysKept = size_t{256} << 20;
constexpr bool kExact = false;
#endif

std::byte* aligned_block(size_t alignment, size_t size) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, size) == 0 ? static_cast<std::byte*>(block) : nullptr;
}

}  // namespace

// Size classes: eight to each power of two, so that at most an eighth is wasted and sizes that differ a little share.
size_t Allocator::size_of(size_t bytes) {
  if (kExact) return bytes;
  if (bytes <= 64) return 64;
  const size_t step = std::max<size_t>(std::bit_floor(bytes - 1) / 8, 64);
  const size_t rounded = (bytes + step - 1) / step * step;
  return rounded >= kHugePage ? (rounded + kHugePage - 1) / kHugePage * kHugePage : rounded;
}

Allocator::~Allocator() { release_kept(0); }

std::byte* Allocator::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 4) fail(TRANSOM_OUT_OF_MEMORY, "a buffer of {} bytes is larger than the address space", bytes);
  const size_t size = size_of(bytes);
  std::lock_guard lock(mutex_);
  std::byte* block = nullptr;
  if (auto found = kept_.find(size); found != kept_.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
    kept_bytes_ -= size;
  } else {
    const size_t alignment = size >= kHugePage ? kHugePage : 64;
    block = aligned_block(alignment, size);
    if (!block) {
      release_kept(0);
      block = aligned_block(alignment, size);
    }
    if (!block) fail(TRANSOM_OUT_OF_MEMORY, "no memory for a buffer of {} bytes; {} bytes are in use", bytes, in_use_);
    if (size >= kHugePage) madvise(block, size, MADV_HUGEPAGE);
  }
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  ++allocations_;
  return block;
}

void Allocator::free(std::byte* block, size_t bytes) {
  const size_t size = size_of(bytes);
  std::lock_guard lock(mutex_);
  in_use_ -= size;
  try {
    kept_[size].push_back(block);
    kept_bytes_ += size;
  } catch (const std::bad_alloc&) {
    std::free(block);
  }
  // What is kept may be as much as what is in use: enough for a step's outputs, and never twice the memory for long.
  if (const size_t keep = kAlwaysKept ? std::max<size_t>(kAlwaysKept, in_use_) : 0; kept_bytes_ > keep)
    release_kept(keep);
}

void Allocator::release_kept(size_t keep) {
  for (auto largest = kept_.rbegin(); largest != kept_.rend(); ++largest) {
    while (kept_bytes_ > keep && !largest->second.empty()) {
      std::free(largest->second.back());
      largest->second.pop_back();
      kept_bytes_ -= largest->first;
    }
  }
}

transom_memory_statistics Allocator::statistics() {
  std::lock_guard lock(mutex_);
  transom_memory_statistics result{};
  result.bytes_in_use = in_use_;
  result.peak_bytes_in_use = peak_;
  result.bytes_limit = physical_memory();
  result.allocations = allocations_;
  result.handles = Handle::live;
  return result;
}

void Allocator::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

PackedMemory allocate_packed(size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<std::byte> open_block;  // the one that has space left
  static size_t used = 0;
  const size_t size = std::max<size_t>((bytes + 63) / 64 * 64, 64);
  const std::lock_guard lock(mutex);
  std::shared_ptr<std::byte> block = open_block.lock();
  if (!block || size > kPackedBlock - used) {
    const size_t whole = std::max((size + kHugePage - 1) / kHugePage * kHugePage, kPackedBlock);
    block.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, whole)), &std::free);
    if (!block) fail(TRANSOM_OUT_OF_MEMORY, "no memory for a packed weight of {} bytes", bytes);
    madvise(block.get(), whole, MADV_HUGEPAGE);
    if (size >= kPackedBlock) return block;  // its own; the open one stays
    open_block = block;
    used = 0;
  }
  const PackedMemory part(block, block.get() + used);
  used += size;
  return part;
}

bool used_before(transom_buffer& buffer, size_t offset, const std::vector<int64_t>& key) {
  const std::lock_guard lock(buffer.packed_mutex);
  return !buffer.used.emplace(offset, key).second;
}

uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

}  // namespace transom::cpu
