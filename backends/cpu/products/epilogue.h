// SPDX-License-Identifier: Apache-2.0
// A kernel that writes its result in chunks can pass each of them on while it is still in the caches: the fusion that
// reads the result is then computed without another pass over memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// Stretches of `length` elements of a tensor, `step` apart. `data`: where the chunk is, its stretches one behind the
// other; null: in its place in the tensor. A kernel whose result nobody else reads leaves it in memory of its thread,
// which stays in the second cache.
struct Chunk {
  int64_t begin, length, step = 0, count = 1;
  const std::byte* data = nullptr;
  int64_t element_bytes = 0;  // where there is data
};

class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  // Called by the thread that wrote the chunk, once for each; it may use thread_scratch.
  virtual void read(const Chunk& chunk) const = 0;
};

}  // namespace transom::cpu
