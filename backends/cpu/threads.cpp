// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.h"

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
  thread_local Block blocks[2];
  Block& block = blocks[static_cast<size_t>(use)];
  if (bytes > block.capacity) {
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    block.capacity = 0;
    block.memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    if (!block.memory) throw std::bad_alloc();
    block.capacity = rounded;
  }
  return block.memory.get();
}

}  // namespace transom::cpu
