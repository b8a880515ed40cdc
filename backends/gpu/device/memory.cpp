// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/memory.h"

#include <algorithm>

#include "transom/plugin/handle.h"

namespace transom::gpu {
namespace {

bool means_lost(const backend::Failure& failure) { return failure.status() == TRANSOM_DEVICE_LOST; }

// Few different sizes, so that blocks find new owners; an eighth of a large one is lost at most.
size_t block_size(size_t bytes) {
  if (bytes <= (1 << 20)) return (bytes + 511) / 512 * 512;
  size_t step = 1 << 18;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

size_t most_kept(const Facts& facts) {
  constexpr size_t kGiB = size_t{1} << 30;
  if (facts.memory_bytes == 0) return kGiB;
  return facts.host_memory ? std::min<size_t>(kGiB, facts.memory_bytes / 8)
                           : std::max<size_t>(kGiB, facts.memory_bytes / 2);
}

Memory::Memory(Context& context)
    : context_(context), limit_(context.facts().memory_bytes), most_kept_(most_kept(context.facts())) {}

Memory::~Memory() {
  try {
    reclaim(true);
  } catch (const backend::Failure& failure) {
    if (!means_lost(failure))  // else their memory goes with the context
      for (const Pending& pending : pending_) context_.release(pending.memory);
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

// An event behind all work of the queue so far.
const std::shared_ptr<Event>& Memory::mark(MarkedQueue& queue) {
  if (queue.marked != queue.issued || !queue.marker) {
    std::shared_ptr<Event> marker = context_.make_event();
    queue.queue->record(*marker);
    queue.marker = std::move(marker);
    queue.marked = queue.issued;
  }
  return queue.marker;
}

void Memory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(memory);
  if (found == live_.end()) return;
  const auto [block, bytes] = found->second;
  live_.erase(found);
  in_use_ -= bytes;
  Pending pending{memory, block, {}, {}};
  for (MarkedQueue* queue : queues_) {
    if (queue->issued == queue->completed || queue->capturing) continue;
    try {
      pending.markers.push_back(mark(*queue));
    } catch (const backend::Failure& failure) {
      if (means_lost(failure)) return;  // its memory goes with the context
      pending.unmarked.emplace_back(queue, queue->issued);
    }
  }
  if (pending.markers.empty() && pending.unmarked.empty()) keep(memory, block);
  else pending_.push_back(std::move(pending));
}

// Whether all work that may use the memory is done. What has passed is not asked again.
bool Memory::passed(Pending& pending, bool wait) {
  while (!pending.unmarked.empty()) {
    const auto [queue, work] = pending.unmarked.back();
    if (queue->completed < work) {
      if (queue->capturing) return false;
      try {
        pending.markers.push_back(mark(*queue));
      } catch (const backend::Failure& failure) {
        if (means_lost(failure)) throw;
        if (!wait) return false;
        queue->queue->synchronize();
        queue->completed = queue->issued;
      }
    }
    pending.unmarked.pop_back();
  }
  while (!pending.markers.empty()) {
    if (wait) context_.synchronize(*pending.markers.back());
    else if (!context_.passed(*pending.markers.back())) return false;
    pending.markers.pop_back();
  }
  return true;
}

void Memory::reclaim(bool wait) {
  while (!pending_.empty() && passed(pending_.front(), wait)) {
    const Pending done = std::move(pending_.front());
    pending_.pop_front();
    keep(done.memory, done.bytes);
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
  for (Pending& pending : pending_)
    if (std::erase_if(pending.unmarked, [&](const auto& one) { return one.first == &queue; }))
      queue.queue.reset();  // waits for its work
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
