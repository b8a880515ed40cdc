// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace transom {

// The seed of the draws of one of several processes: rank 0 keeps the seed itself, and no other rank of this or of
// another seed below 2^32 has the same one. The two halves of Philox's key are the seed and the rank.
constexpr int64_t seed_of_rank(int64_t seed, int64_t rank) {
  return static_cast<int64_t>(static_cast<uint64_t>(seed) ^ static_cast<uint64_t>(rank) << 32);
}

}  // namespace transom
