// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/memory.h"

#include <algorithm>

#include "common/handle.h"

namespace transom::gpu {
namespace {

// A GPU is ours: half of its memory waits for the next step, whose programs ask for the same blocks, since giving one
// back waits for all work. Where the device is the host, its memory is everybody's.
size_t most_kept(const Facts& facts) {
  constexpr size_t kLeast = size_t{1} << 30;
  return facts.wave > 1 && !facts.emulated ? std::max<size_t>(kLeast, facts.memory_bytes / 2) : kLeast;
}

// Few different sizes, so that blocks find new owners; an eighth of a large one is lost at most.
size_t block_size(size_t bytes) {
  if (bytes <= (1 << 20)) return (bytes + 511) / 512 * 512;
  size_t step = 1 << 18;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Memory::Memory(Context& context)
    : context_(context), limit_(context.facts().memory_bytes), most_kept_(most_kept(context.facts())) {}

Memory::~Memory() {
  try {
    reclaim(true);
  } catch (...) {  // the device is lost; its memory goes with the context
  }
  trim(0);
}

void* Memory::take(size_t block) {
  const auto found = kept_.find(block);
  if (found == kept_.end()) return nullptr;
  void* memory = found->second;
  kept_.erase(found);
  kept_bytes_ -= block;
  return memory;
}

void* Memory::allocate(size_t bytes) {
  const auto refuse = [&]() -> void* {
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: expected room for {} bytes, {} of {} are in use", bytes, in_use_,
         limit_);
  };
  const std::lock_guard lock(mutex_);
  if (limit_ && (bytes > limit_ || in_use_ > limit_ - bytes)) refuse();
  if (bytes > SIZE_MAX / 4) refuse();
  const size_t block = block_size(bytes);
  reclaim(false);
  void* memory = take(block);
  if (!memory) {
    try {
      memory = context_.allocate(block);
    } catch (const backend::Failure& failure) {
      if (failure.status() != TRANSOM_OUT_OF_MEMORY) throw;
      reclaim(true);  // everything that nobody needs any more goes back, then once again
      memory = take(block);
      if (!memory) {
        trim(0);
        memory = context_.allocate(block);
      }
    }
  }
  live_[memory] = {block, bytes};
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  ++allocations_;
  return memory;
}

// For want of an event. False: the device is lost.
bool Memory::wait_for_all() {
  try {
    for (MarkedQueue* queue : queues_)
      if (!queue->capturing) queue->queue->synchronize();
    return true;
  } catch (const backend::Failure&) {
    return false;
  }
}

void Memory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(memory);
  if (found == live_.end()) return;
  const auto [block, bytes] = found->second;
  live_.erase(found);
  in_use_ -= bytes;
  Pending pending{memory, block, {}};
  try {
    for (MarkedQueue* queue : queues_) {
      if (queue->issued == queue->completed || queue->capturing) continue;
      if (queue->marked != queue->issued) {
        std::shared_ptr<Event> marker = context_.make_event();
        queue->queue->record(*marker);
        queue->marker = std::move(marker);
        queue->marked = queue->issued;
      }
      pending.markers.push_back(queue->marker);
    }
  } catch (const backend::Failure& failure) {
    if (failure.status() == TRANSOM_DEVICE_LOST || !wait_for_all()) return;  // its memory goes with the context
    pending.markers.clear();
  }
  if (pending.markers.empty()) keep(memory, block);
  else pending_.push_back(std::move(pending));
}

void Memory::reclaim(bool wait) {
  while (!pending_.empty()) {
    for (const auto& marker : pending_.front().markers) {
      if (wait) context_.synchronize(*marker);
      else if (!context_.passed(*marker)) return;
    }
    keep(pending_.front().memory, pending_.front().bytes);
    pending_.pop_front();
  }
}

void Memory::keep(void* memory, size_t bytes) {
  if (bytes > most_kept_) return context_.release(memory);
  trim(most_kept_ - bytes);
  kept_.emplace(bytes, memory);
  kept_bytes_ += bytes;
}

// Large blocks go first: they are the ones that are asked for again in another size.
void Memory::trim(size_t to_bytes) {
  while (kept_bytes_ > to_bytes) {
    const auto last = std::prev(kept_.end());
    context_.release(last->second);
    kept_bytes_ -= last->first;
    kept_.erase(last);
  }
}

void Memory::add(MarkedQueue& queue) {
  const std::lock_guard lock(mutex_);
  queues_.push_back(&queue);
}
void Memory::remove(MarkedQueue& queue) {
  const std::lock_guard lock(mutex_);
  std::erase(queues_, &queue);
}
void Memory::issued(MarkedQueue& queue) {
  const std::lock_guard lock(mutex_);
  ++queue.issued;
}
void Memory::completed(MarkedQueue& queue) {
  const std::lock_guard lock(mutex_);
  queue.completed = queue.issued;
}

transom_memory_statistics Memory::statistics() const {
  const std::lock_guard lock(mutex_);
  transom_memory_statistics mine{};
  mine.bytes_in_use = in_use_;
  mine.peak_bytes_in_use = peak_;
  mine.bytes_limit = limit_;
  mine.allocations = allocations_;
  mine.handles = backend::Handle::live;
  return mine;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

}  // namespace transom::gpu
