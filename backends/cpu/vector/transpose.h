// SPDX-License-Identifier: Apache-2.0
// Blocks of 4-byte numbers whose rows and columns change places in registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

struct TransposedBlocks {
  size_t size;  // rows and columns of a block
  // to[c * to_step + r] = from[r * from_step + c] for one whole block; steps in numbers. The two do not overlap.
  void (*transpose)(uint32_t* to, size_t to_step, const uint32_t* from, size_t from_step);
};

// Null where this processor has none. Any thread.
const TransposedBlocks* transposed_blocks();

namespace avx2 {
void fill_transposed_blocks(TransposedBlocks& table);
}
namespace avx512 {
void fill_transposed_blocks(TransposedBlocks& table);
}

}  // namespace transom::cpu
