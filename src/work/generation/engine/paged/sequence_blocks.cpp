// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/sequence_blocks.h"

namespace transom {
namespace {

// From the end, so that the beginnings, which others are likelier to share, stay longest.
void release(BlockPool& pool, const SequenceBlocks& text) {
  for (auto block = text.blocks.rbegin(); block != text.blocks.rend(); ++block) pool.release(*block);
}

}  // namespace

int64_t copies_of_fork(int64_t block_size, const std::vector<SequenceBlocks>& texts,
                       const std::vector<size_t>& sources) {
  int64_t copies = 0;
  std::vector<bool> is_taken(texts.size(), false);
  for (const size_t source : sources) {
    const SequenceBlocks& from = texts.at(source);
    if (from.blocks.empty() || from.seen % block_size == 0) continue;
    copies += is_taken[source];
    is_taken[source] = true;
  }
  return copies;
}

BlockCopies fork_sequences(BlockPool& pool, int64_t block_size, std::vector<SequenceBlocks>& texts,
                           const std::vector<size_t>& sources) {
  const std::vector<SequenceBlocks> old = std::exchange(texts, std::vector<SequenceBlocks>(sources.size()));
  std::vector<bool> goes_on(old.size(), false), is_taken(old.size(), false);
  for (const size_t source : sources) goes_on.at(source) = true;
  for (size_t i = 0; i < old.size(); ++i)
    if (!goes_on[i]) release(pool, old[i]);
  BlockCopies copies;
  for (size_t i = 0; i < sources.size(); ++i) {
    const SequenceBlocks& from = old[sources[i]];
    if (from.blocks.empty()) continue;
    const auto whole = static_cast<size_t>(from.seen / block_size);
    const bool has_part = from.seen % block_size != 0;
    int64_t last = -1;
    if (has_part && is_taken[sources[i]]) {
      last = pool.take();
      if (last < 0) continue;
      copies.emplace_back(from.blocks[whole], static_cast<int32_t>(last));
    } else if (has_part) {
      last = from.blocks[whole];
      pool.share(last);
      is_taken[sources[i]] = true;
    }
    SequenceBlocks& text = texts[i];
    text = from;
    text.blocks.resize(whole);
    for (const int32_t block : text.blocks) pool.share(block);
    if (has_part) text.blocks.push_back(static_cast<int32_t>(last));
  }
  for (size_t i = 0; i < old.size(); ++i)
    if (goes_on[i]) release(pool, old[i]);
  return copies;
}

}  // namespace transom
