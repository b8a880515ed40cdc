// SPDX-License-Identifier: Apache-2.0
// What a text has in the paged cache, and what texts have that go on from others.
#pragma once

#include <utility>
#include <vector>

#include "work/generation/engine/paged/block_pool.h"

namespace transom {

struct SequenceBlocks {
  std::vector<int32_t> blocks;
  PrefixId prefix = 0;    // of the named blocks
  size_t named = 0;       // how many of the blocks are named
  size_t from_files = 0;  // of these, read from files
  int64_t seen = 0;       // of a text that is forked: tokens whose keys and values are there
};

using BlockCopies = std::vector<std::pair<int32_t, int32_t>>;  // from, to

// How many copies fork_sequences makes where the pool has blocks enough.
int64_t copies_of_fork(int64_t block_size, const std::vector<SequenceBlocks>& texts,
                       const std::vector<size_t>& sources);

// Text i of the result goes on from text `sources[i]`; texts that none goes on from give up their blocks. Blocks that
// are full are shared. Of the one that is not, the first taker gets the block itself and each other one a copy, which
// the caller has to make. Where the pool has no block for it, or the source has none, a text has none and seen = 0.
BlockCopies fork_sequences(BlockPool& pool, int64_t block_size, std::vector<SequenceBlocks>& texts,
                           const std::vector<size_t>& sources);

}  // namespace transom
