// SPDX-License-Identifier: Apache-2.0
#include "base/memory/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace transom {

std::shared_ptr<std::byte> huge_pages(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = std::max<size_t>(bytes, 1), kept = size + (size >= kHugePage ? kHugePage : 0);
  void* place =
      kept < size ? MAP_FAILED : ::mmap(nullptr, kept, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) fail(ErrorKind::kOutOfMemory, "out of memory: {} bytes for weights", bytes);
  auto* begin = static_cast<std::byte*>(place);
  if (size >= kHugePage) {
    begin += (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    ::madvise(begin, size, MADV_HUGEPAGE);
  }
  return {begin, [place, kept](std::byte*) { ::munmap(place, kept); }};
}

}  // namespace transom
