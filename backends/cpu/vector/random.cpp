// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

struct Block {
  uint32_t words[4];
};

inline Block philox(uint64_t seed, uint64_t offset, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

void random_bits(uint32_t* y, uint64_t seed, uint64_t offset, uint64_t first, size_t n) {
  size_t i = 0;
  for (; i < n && (first + i) % 4; ++i) y[i] = philox(seed, offset, (first + i) / 4).words[(first + i) % 4];
  const uint64_t block = (first + i) / 4;
  const size_t blocks = (n - i) / 4;
  uint32_t* whole = y + i;
  TRANSOM_SIMD
  for (size_t b = 0; b < blocks; ++b) {
    const Block made = philox(seed, offset, block + b);
    whole[4 * b] = made.words[0];
    whole[4 * b + 1] = made.words[1];
    whole[4 * b + 2] = made.words[2];
    whole[4 * b + 3] = made.words[3];
  }
  for (i += 4 * blocks; i < n; ++i) y[i] = philox(seed, offset, (first + i) / 4).words[(first + i) % 4];
}

}  // namespace

void fill_random(VectorKernels& kernels) { kernels.random_bits = random_bits; }

}  // namespace transom::cpu::TRANSOM_LEVEL
