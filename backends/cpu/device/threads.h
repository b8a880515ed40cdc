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
// not depend on where the ranges end.
template <typename Body>
void parallel_ranges(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int64_t most = static_cast<int64_t>(thread_count()) * 4;
  const int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, thread_count() == 1 ? 1 : most);
  parallel_for(static_cast<size_t>(parts), [&](size_t part) {
    const int64_t i = static_cast<int64_t>(part);
    body(count * i / parts, count * (i + 1) / parts);
  });
}

// Into how many pieces a reduction of so many elements is cut along an axis of `extent`: its rounding must not depend
// on the threads, nor on whether it is fused with what makes the elements.
inline int64_t pieces_of_reduction(int64_t count, int64_t extent) {
  constexpr int64_t kPieceElements = 1 << 16;
  return std::clamp<int64_t>(count / kPieceElements, 1, std::max<int64_t>(extent, 1));
}

// At least `bytes` of memory of the calling thread, aligned to 64; valid until its next call for the same use. The
// matrix library has its own, since it is called while a kernel's is in use.
enum class ScratchUse { kKernel, kLibrary, kChunk };
std::byte* thread_scratch(size_t bytes, ScratchUse use = ScratchUse::kKernel);

}  // namespace transom::cpu
