// SPDX-License-Identifier: Apache-2.0
// The host's pool of threads, and memory that each of its threads keeps for intermediate values.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>

#include "transom/device_plugin.h"

namespace transom::cpu {

// Set once by transom_plugin_open.
extern transom_host the_host;

inline size_t thread_count() { return the_host.threads ? the_host.threads : 1; }

// Does body(i) for every i in [0, count) on the host's pool. An exception must not pass the C interface: the first one
// is carried over it and thrown again here.
template <typename Body>
void parallel_for(size_t count, Body&& body) {
  if (count <= 1) {
    if (count == 1) body(size_t{0});
    return;
  }
  struct Context {
    Body& body;
    std::mutex mutex;
    std::exception_ptr error;
  } context{body, {}, {}};
  the_host.parallel(count, &context, [](void* opaque, size_t i) {
    auto& shared = *static_cast<Context*>(opaque);
    try {
      shared.body(i);
    } catch (...) {
      std::lock_guard lock(shared.mutex);
      if (!shared.error) shared.error = std::current_exception();
    }
  });
  if (context.error) std::rethrow_exception(context.error);
}

// Splits [0, count) into ranges of at least `grain` and does body(begin, end) for each. Only for work whose result does
// not depend on where the ranges end. They get smaller towards the end, so that threads end together and yet do most of
// the work in few of them (guided self-scheduling: Polychronopoulos and Kuck, 1987).
template <typename Body>
void parallel_ranges(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const auto threads = static_cast<int64_t>(thread_count());
  const int64_t tasks = std::min(count / std::max<int64_t>(grain, 1), threads);
  if (tasks <= 1) return body(int64_t{0}, count);
  constexpr int64_t kMostRanges = 16;  // of a thread, about
  const int64_t least = std::max(grain, count / (kMostRanges * threads));
  std::atomic<int64_t> next{0};
  parallel_for(static_cast<size_t>(tasks), [&](size_t) {
    int64_t begin = next.load(std::memory_order_relaxed), end = begin;
    while (begin < count) {
      end = std::min(begin + std::max({least, (count - begin) / (2 * threads), int64_t{1}}), count);
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(begin, end);
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

// Into how many pieces a reduction of so many elements is cut along an axis of `extent`: its rounding must not depend
// on the threads, nor on whether it is fused with what makes the elements.
inline int64_t pieces_of_reduction(int64_t count, int64_t extent) {
  constexpr int64_t kPieceElements = 1 << 16;
  return std::clamp<int64_t>(count / kPieceElements, 1, std::max<int64_t>(extent, 1));
}

// At least `bytes` of memory of the calling thread, aligned to 64; valid until its next call for the same use. The
// matrix library has its own, since it is called while a kernel's is in use, and so have weights packed for one use.
enum class ScratchUse { kKernel, kLibrary, kChunk, kPanels };
std::byte* thread_scratch(size_t bytes, ScratchUse use = ScratchUse::kKernel);

}  // namespace transom::cpu
