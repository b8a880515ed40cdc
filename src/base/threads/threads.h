// SPDX-License-Identifier: Apache-2.0
// The one pool of threads of the process. The caller takes chunks too and never waits for a worker that has not
// started, so a descheduled worker costs nothing; workers spin about 2 ms for more work before they sleep.
#pragma once

#include <cstddef>
#include <functional>
#include <type_traits>

namespace transom {

// How many threads compute, the caller included: TRANSOM_NUM_THREADS, else OMP_NUM_THREADS, else the cores that this
// process may use (affinity and cgroup limits counted). With TRANSOM_PIN_THREADS=1 and as many threads as cores, each
// worker stays on a core of its own.
size_t thread_count();

// Does body(i) for every i in [0, count) on the pool; returns when all are done. The first exception is thrown again
// here. A call from inside a body runs serially.
void parallel(size_t count, void* context, void (*body)(void* context, size_t i));

template <typename Body>
void parallel_for(size_t count, Body&& body) {
  parallel(count, const_cast<void*>(static_cast<const void*>(&body)),
           [](void* context, size_t i) { (*static_cast<std::remove_reference_t<Body>*>(context))(i); });
}

}  // namespace transom
