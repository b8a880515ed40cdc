// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/cache_blocks.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device/device.h"
#include "transom/device.h"

namespace transom {
namespace {

// Of the cache, where its size is not given: a part of the free memory. A card's memory is there for this; the host's
// is everybody's, and no more than so much of it is taken.
constexpr int64_t kShareOfCard = 2, kShareOfHost = 4, kMostOfHost = int64_t{1} << 29;

// States of a block that are little, and tokens that a beginning which is to be found again has at most.
constexpr int64_t kFewBytes = int64_t{1} << 18, kMostTokens = 256;

// Bytes of a cache whose size is not given.
int64_t share_of_memory() {
  const MemoryUse memory = memory_use();
  const auto free = static_cast<int64_t>(memory.limit > memory.in_use ? memory.limit - memory.in_use : 0);
  return default_device()->shares_host_memory() ? std::min(free / kShareOfHost, kMostOfHost) : free / kShareOfCard;
}

}  // namespace

int64_t bytes_of_block(const std::vector<KeyValueShape>& shapes, int64_t tokens) {
  int64_t bytes = 0;
  for (const KeyValueShape& shape : shapes) bytes += shape.bytes(tokens);
  return bytes;
}

int64_t tokens_of_block(const EngineOptions& options, const std::vector<KeyValueShape>& shapes, int64_t length) {
  int64_t size = options.block_size;
  const auto bytes = [&](bool of_states) {
    int64_t sum = 0;
    for (const KeyValueShape& shape : shapes) sum += shape.is_state() == of_states ? shape.bytes(size) : 0;
    return sum;
  };
  while (size < kMostTokens && bytes(true) > std::max(kFewBytes, bytes(false))) size *= 2;
  if (bytes(false) > 0 || bytes(true) == 0) return size;
  const int64_t room = options.cache_bytes > 0 ? options.cache_bytes : share_of_memory();
  while (size < length && (length + size - 1) / size > room / bytes(true)) size *= 2;
  return size;
}

BlockCounts cache_blocks(const EngineOptions& options, const std::vector<KeyValueShape>& shapes, int64_t length) {
  const int64_t block_bytes = bytes_of_block(shapes, options.block_size);
  const int64_t one = (length + options.block_size - 1) / options.block_size;
  const int64_t first = (options.max_batched_tokens + options.block_size - 1) / options.block_size;
  if (options.cache_bytes > 0) {
    const int64_t blocks = options.cache_bytes / block_bytes;
    if (blocks < one)
      fail("cache_bytes = {}: a text of {} tokens takes {}; give more, or a smaller max_model_length",
           options.cache_bytes, length, one * block_bytes);
    return {std::min(first, blocks), blocks};
  }
  const int64_t blocks = std::clamp(share_of_memory() / block_bytes, one, one * options.max_sequences);
  return {std::min(first, blocks), blocks};
}

}  // namespace transom
