// SPDX-License-Identifier: Apache-2.0
// Which blocks of the KV cache are free, who shares them, and which hold the beginning of a text that may come again.
// Only whole blocks are shared, and they never change: who goes on from inside of one computes its part of it anew, or
// copies it (sequence_blocks.h).
#pragma once

#include <list>
#include <map>
#include <span>
#include <vector>

#include "transom/generation.h"

namespace transom {

// A text up to the end of a block. Texts are compared by their tokens, not by hashes alone: no prompt can be made that
// is taken for another.
using PrefixId = uint64_t;

class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);

  // A block with one reference, which holds nothing of use; -1 where all are referred to. Of those that nobody refers
  // to, the ones that hold no prefix go first, then the prefix that was given up longest ago.
  int64_t take();
  void share(int64_t block) { ++blocks_.at(static_cast<size_t>(block)).references; }
  // Gives up a reference. What the block holds can be found until the block is taken.
  void release(int64_t block);

  // The block that holds `tokens` behind `prefix`, with one more reference, and the prefix with it; -1 if none does.
  int64_t find(PrefixId& prefix, std::span<const int64_t> tokens);
  // The block holds `tokens` behind `prefix`; becomes the prefix with them. Another block that holds the same keeps the
  // name.
  void name(int64_t block, PrefixId& prefix, std::span<const int64_t> tokens);
  // Forgets what the blocks hold, of which none may be referred to.
  void clear();

  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t available() const { return static_cast<int64_t>(unused_.size()); }  // take() can give so many
  // Of these, those that hold no prefix.
  int64_t blank() const { return blank_; }
  // Adds blocks that nobody refers to. They go before those that hold prefixes.
  void grow(int64_t blocks);

 private:
  using Name = std::pair<PrefixId, TokenIds>;
  struct Named {
    int64_t block;
    PrefixId prefix;  // with the block's tokens
  };
  struct Block {
    int64_t references = 0;
    std::list<int64_t>::iterator place;  // in unused_, without references
    std::map<Name, Named>::iterator name;
  };
  std::vector<Block> blocks_;
  std::list<int64_t> unused_;  // the next to be taken first
  int64_t blank_ = 0;
  std::map<Name, Named> names_;
  PrefixId last_ = 1 << 20;  // smaller ones are roots of texts (of adapters)
};

}  // namespace transom
