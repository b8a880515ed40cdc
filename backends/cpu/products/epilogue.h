// SPDX-License-Identifier: Apache-2.0
// A kernel that writes its result in chunks can pass each of them on while it is still in the caches: the fusion that
// reads the result is then computed without another pass over memory.
#pragma once

#include <cstdint>

namespace transom::cpu {

// Stretches of `length` elements of a tensor, `step` apart.
struct Chunk {
  int64_t begin, length, step = 0, count = 1;
};

class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  // Called by the thread that wrote the chunk, once for each; it may use thread_scratch.
  virtual void read(const Chunk& chunk) const = 0;
};

}  // namespace transom::cpu
