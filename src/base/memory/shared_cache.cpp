// SPDX-License-Identifier: Apache-2.0
#include "base/memory/shared_cache.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace transom {
namespace {

size_t limit_at_start() {
  if (const char* text = std::getenv("TRANSOM_CACHE_BYTES"); text && *text) {
    size_t bytes = 0;
    const char* end = text + std::strlen(text);
    if (const auto [stop, error] = std::from_chars(text, end, bytes); error != std::errc() || stop != end)
      fail(ErrorKind::kUsage, "TRANSOM_CACHE_BYTES: expected a number of bytes, found {}", quoted(text));
    return bytes;
  }
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const size_t memory = pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
  return std::max(memory / 8, size_t{512} << 20);
}

std::atomic<size_t>& limit() {
  static std::atomic<size_t> bytes{limit_at_start()};
  return bytes;
}

}  // namespace

size_t cache_limit() { return limit(); }
void set_limit_of_caches(size_t bytes) { limit() = bytes; }

}  // namespace transom
