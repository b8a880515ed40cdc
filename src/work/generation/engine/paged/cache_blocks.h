// SPDX-License-Identifier: Apache-2.0
// How large the KV cache of the engine is.
#pragma once

#include <vector>

#include "models/nn/attention/paged_cache.h"
#include "transom/engine.h"

namespace transom {

// Of the cache: at first those of one step, and what it may grow to. It doubles when no more are blank.
struct BlockCounts {
  int64_t first, most;
};

// Keys, values and states of a block of so many tokens, of all layers.
int64_t bytes_of_block(const std::vector<KeyValueShape>& shapes, int64_t tokens);

// What a sequence of full length takes, and no more than there is. Throws Error where options.cache_bytes do not hold
// one text of `length` tokens.
BlockCounts cache_blocks(const EngineOptions& options, const std::vector<KeyValueShape>& shapes, int64_t length);

// How many tokens a block has: options.block_size, or more, so that the states of a model, of which a block has one
// each, take no more memory than its keys, or little; and of a model without keys so many that the states of a text of
// `length` tokens fit into the cache.
int64_t tokens_of_block(const EngineOptions& options, const std::vector<KeyValueShape>& shapes, int64_t length);

}  // namespace transom
