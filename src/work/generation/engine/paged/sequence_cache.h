// SPDX-License-Identifier: Apache-2.0
// Which blocks of the KV cache hold the tokens of which sequence: room for more of them, beginnings that sequences
// share, and what is left when memory ends. Which sequence goes first is the runner's to say.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "work/generation/engine/paged/cache_blocks.h"
#include "work/generation/engine/paged/kept/prefix_files.h"
#include "work/generation/engine/paged/paged_program.h"
#include "work/generation/engine/paged/sequence_blocks.h"
#include "work/generation/engine/sequence.h"

namespace transom {

// Memory ended while the cache grew, and with it what it held: lose_all() is to be called. The cache does not try to
// grow again.
struct CacheLost {};

class SequenceCache {
 public:
  using Sequences = std::span<const std::unique_ptr<Sequence>>;

  // With `caching` the blocks of texts that have ended are found by those that begin alike, and with `files` (null:
  // none) also what other processes kept there. The program outlives this.
  SequenceCache(PagedProgram& program, BlockCounts blocks, int64_t block_size, bool caching,
                std::unique_ptr<PrefixFiles> files = nullptr);

  // What the cache has of a sequence; of a new one nothing.
  SequenceBlocks& of(const Sequence& sequence) { return texts_[&sequence]; }
  bool holds(const Sequence& sequence) const;
  bool is_empty() const;  // holds nothing of any sequence
  int64_t block_size() const { return block_size_; }
  int64_t size() const { return pool_.size(); }  // blocks
  int64_t most() const { return most_blocks_; }
  int64_t used() const { return pool_.size() - pool_.available(); }

  // Whether so many blocks can be taken; grows as far as the limit allows. Throws CacheLost.
  bool has_room(int64_t blocks);
  // Of a sequence of the text, beyond those that it has.
  int64_t missing_blocks(const SequenceBlocks& text, int64_t tokens) const;
  // Room for the tokens; false if there is none, and nothing has changed then. Throws CacheLost.
  bool reserve(SequenceBlocks& text, int64_t tokens);

  // Gives a sequence without blocks those at its beginning that are there already. Its last token is always computed.
  // Throws CacheLost.
  void share_prefix(Sequence& sequence, Sequences sequences);
  // There was room for the rest as well: what it found counts once, however often it asked in vain.
  void note_begun(Sequence& sequence, EngineStatistics& statistics) const;
  // The model has seen Sequence::seen tokens: full blocks of them can be found by others from now on.
  void note_seen(const Sequence& sequence);
  // Beam i goes on from what beam `sources[i]` had. Throws CacheLost before anything has changed, anything else when
  // all keys and values are lost.
  void fork(const std::vector<Sequence*>& beams, const std::vector<size_t>& sources);

  void give_up(Sequence& sequence);  // its blocks: it is computed again when it goes on
  void forget(Sequence& sequence);   // it has ended; its blocks go to files
  // The keys and values are gone: whoever goes on is computed again. Gives back how many have lost theirs.
  int64_t lose_all(Sequences sequences);

 private:
  void make_room(int64_t blocks);
  TokenIds name_of_block(const Sequence& sequence, size_t block) const;
  const Sequence* first_of(const Sequence& sequence, Sequences sequences) const;
  bool has_files(const Sequence& sequence) const;
  const std::string& file_key(const Sequence& sequence, size_t block);
  void read_files(const Sequence& sequence, SequenceBlocks& text, size_t most);
  void write_files(const Sequence& sequence);

  PagedProgram& program_;
  BlockPool pool_;
  int64_t most_blocks_;
  const int64_t block_size_;
  const bool caching_;
  std::map<const Sequence*, SequenceBlocks> texts_;
  std::unique_ptr<PrefixFiles> files_;
  std::map<const Sequence*, std::vector<std::string>> keys_;  // in files, of the blocks of a text
};

}  // namespace transom
