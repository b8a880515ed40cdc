// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace transom::cpu {

transom_host the_host{};

std::byte* thread_scratch(size_t bytes) {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local size_t capacity = 0;
  if (bytes > capacity) {
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    capacity = memory ? rounded : 0;
    if (!memory) throw std::bad_alloc();
  }
  return memory.get();
}

}  // namespace transom::cpu
