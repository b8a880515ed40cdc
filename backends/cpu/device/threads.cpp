// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/threads.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace transom::cpu {

transom_host the_host{};

std::byte* thread_scratch(size_t bytes, ScratchUse use) {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    size_t capacity = 0;
  };
  thread_local Block blocks[4];
  Block& block = blocks[static_cast<size_t>(use)];
#if defined(__SANITIZE_ADDRESS__)  // a sanitizer should see where it ends, and what is used after the next call
  const size_t rounded = bytes;
  block.capacity = 0;
#else
  const size_t rounded = (bytes + 4095) / 4096 * 4096;
#endif
  if (bytes > block.capacity || !block.memory) {
    block.capacity = 0;
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, rounded) != 0) throw std::bad_alloc();
    block.memory.reset(static_cast<std::byte*>(memory));
    block.capacity = rounded;
  }
  return block.memory.get();
}

}  // namespace transom::cpu
