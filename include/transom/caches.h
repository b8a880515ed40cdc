// SPDX-License-Identifier: Apache-2.0
// Caches of compiled programs and of the traces of compiled functions. Each cache evicts its least recently used
// entries when their bytes exceed the limit; entries in use live until their call is done. All functions are safe from
// all threads.
#pragma once

#include <cstddef>

namespace transom {

struct CacheUse {
  size_t entries = 0;
  size_t bytes = 0;  // an estimate
  size_t limit = 0;
  size_t hits = 0, misses = 0, evictions = 0;  // since the process started
};

struct CacheStatistics {
  CacheUse programs;  // a miss is a compilation
  CacheUse traces;    // of compiled functions, with the memory of captured programs
};
CacheStatistics cache_statistics();

// How many bytes each cache may hold: TRANSOM_CACHE_BYTES, else an eighth of the machine's memory, at least 512 MiB.
void set_cache_limit(size_t bytes);

}  // namespace transom
