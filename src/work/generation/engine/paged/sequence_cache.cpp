// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/terminal/log.h"

namespace transom {

SequenceCache::SequenceCache(PagedProgram& program, BlockCounts blocks, int64_t block_size, bool caching,
                             std::unique_ptr<PrefixFiles> files)
    : program_(program),
      pool_(blocks.first),
      most_blocks_(blocks.most),
      block_size_(block_size),
      caching_(caching),
      files_(std::move(files)) {}

bool SequenceCache::holds(const Sequence& sequence) const {
  const auto found = texts_.find(&sequence);
  return found != texts_.end() && !found->second.blocks.empty();
}

bool SequenceCache::is_empty() const {
  return std::all_of(texts_.begin(), texts_.end(), [](const auto& text) { return text.second.blocks.empty(); });
}

// ---- room

// So many blank blocks, as far as the limit allows: prefixes are dropped only then.
void SequenceCache::make_room(int64_t blocks) {
  if (blocks <= pool_.blank() || pool_.size() >= most_blocks_) return;
  const int64_t more = std::min(std::max(pool_.size(), blocks - pool_.blank()), most_blocks_ - pool_.size());
  const int64_t before = std::exchange(most_blocks_, pool_.size());  // where there is no memory, these have to do
  try {
    program_.grow(more);
  } catch (const std::bad_alloc&) {
    throw CacheLost();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) throw CacheLost();
    throw;
  }
  most_blocks_ = before;
  pool_.grow(more);
}

bool SequenceCache::has_room(int64_t blocks) {
  make_room(blocks);
  return blocks <= pool_.available();
}

int64_t SequenceCache::missing_blocks(const SequenceBlocks& text, int64_t tokens) const {
  return (tokens + block_size_ - 1) / block_size_ - static_cast<int64_t>(text.blocks.size());
}

bool SequenceCache::reserve(SequenceBlocks& text, int64_t tokens) {
  const int64_t more = missing_blocks(text, tokens);
  if (!has_room(more)) return false;
  for (int64_t i = 0; i < more; ++i) text.blocks.push_back(static_cast<int32_t>(pool_.take()));
  return true;
}

// ---- beginnings that are shared

// All that fills it. Before the tokens of a text's first block stand its tenant and salt in numbers that are no tokens,
// so that the text is found by those alone who may know of it, and the contents that all tokens see; behind the tokens
// of each block, in such numbers too, the contents of the inputs that fill places of it, with the first of these places
// and the rows that stand there.
TokenIds SequenceCache::name_of_block(const Sequence& sequence, size_t block) const {
  TokenIds name;
  const AdmittedRequest& taken = sequence.request();
  const auto append = [&](const std::string& bytes) {
    name.push_back(-1 - static_cast<int64_t>(bytes.size()));
    for (const char byte : bytes) name.push_back(-1 - static_cast<int64_t>(static_cast<unsigned char>(byte)));
  };
  if (block == 0)
    for (const std::string* secret : {&taken.request.tenant, &taken.request.cache_salt}) append(*secret);
  if (block == 0 && !taken.seen_by_all.empty()) append(taken.seen_by_all);
  const int64_t begin = static_cast<int64_t>(block) * block_size_, end = begin + block_size_;
  name.insert(name.end(), sequence.tokens().begin() + begin, sequence.tokens().begin() + end);
  for (size_t i = 0; i < taken.contents.size(); ++i) {
    int64_t row = 0;
    for (const FilledPlaces& places : taken.request.prompt.attached[i].places) {
      const int64_t first = std::max(places.begin, begin), last = std::min(places.end(), end);
      if (first < last) {
        append(taken.contents[i]);
        for (const int64_t number : {first - begin, last - begin, row + first - places.begin})
          name.push_back(-1 - number);
      }
      row += places.count;
    }
  }
  return name;
}

void SequenceCache::share_prefix(Sequence& sequence, Sequences sequences) {
  SequenceBlocks& text = of(sequence);
  const auto most = static_cast<size_t>((sequence.length() - 1) / block_size_);
  text.prefix = sequence.request().adapter.number;  // keys of other weights have names of their own
  if (sequence.request().request.prompt_logprobs) return;
  if (caching_) {
    while (text.blocks.size() < most) {
      const int64_t block = pool_.find(text.prefix, name_of_block(sequence, text.blocks.size()));
      if (block < 0) break;
      text.blocks.push_back(static_cast<int32_t>(block));
      ++text.named;
    }
    if (has_files(sequence) && has_room(missing_blocks(text, sequence.length()))) read_files(sequence, text, most);
  } else if (const Sequence* first = first_of(sequence, sequences)) {
    // Sequences of one request share the prompt in any case.
    const SequenceBlocks& from = texts_.at(first);
    const auto whole = static_cast<size_t>(std::min(first->seen, sequence.request().prompt_length()) / block_size_);
    for (size_t i = 0; i < std::min({most, whole, from.blocks.size()}); ++i) {
      pool_.share(from.blocks[i]);
      text.blocks.push_back(from.blocks[i]);
    }
  }
  sequence.seen = static_cast<int64_t>(text.blocks.size()) * block_size_;
}

void SequenceCache::note_begun(Sequence& sequence, EngineStatistics& statistics) const {
  sequence.note_begun();
  sequence.note_cached(sequence.seen);
  if (!caching_ || sequence.request().request.prompt_logprobs) return;
  statistics.prefix_queries += sequence.length();
  statistics.prefix_hits += sequence.seen;
  const auto text = texts_.find(&sequence);
  if (text != texts_.end()) statistics.prefix_disk_hits += static_cast<int64_t>(text->second.from_files) * block_size_;
}

// The first sequence of the same request, if it holds blocks.
const Sequence* SequenceCache::first_of(const Sequence& sequence, Sequences sequences) const {
  for (const std::unique_ptr<Sequence>& other : sequences)
    if (&other->request() == &sequence.request() && other->index() < sequence.index() && !other->finished() &&
        holds(*other))
      return other.get();
  return nullptr;
}

void SequenceCache::note_seen(const Sequence& sequence) {
  if (!caching_) return;
  SequenceBlocks& text = of(sequence);
  while (static_cast<int64_t>(text.named + 1) * block_size_ <= sequence.seen) {
    const size_t block = text.named++;
    pool_.name(text.blocks[block], text.prefix, name_of_block(sequence, block));
  }
}

// ---- beginnings in files

// Keys of other weights would need names that outlive the process; an adapter's number does not.
bool SequenceCache::has_files(const Sequence& sequence) const {
  return files_ && sequence.request().adapter.number == 0;
}

const std::string& SequenceCache::file_key(const Sequence& sequence, size_t block) {
  std::vector<std::string>& keys = keys_[&sequence];
  while (keys.size() <= block)
    keys.push_back(PrefixFiles::key_of(keys.empty() ? "" : keys.back(), name_of_block(sequence, keys.size())));
  return keys[block];
}

// There is room for the blocks.
void SequenceCache::read_files(const Sequence& sequence, SequenceBlocks& text, size_t most) {
  for (bool found = true; found && text.blocks.size() < most;) {
    std::vector<std::vector<std::byte>> contents;
    for (size_t block = text.blocks.size(); block < most && contents.size() < BlockTransfer::kAtOnce; ++block) {
      std::optional<std::vector<std::byte>> content = files_->read(file_key(sequence, block));
      found = content.has_value();
      if (!found) break;
      contents.push_back(std::move(*content));
    }
    if (contents.empty()) return;
    std::vector<int32_t> blocks;
    for (size_t i = 0; i < contents.size(); ++i) blocks.push_back(static_cast<int32_t>(pool_.take()));
    try {
      program_.write_blocks(blocks, contents);
    } catch (const std::exception& error) {
      for (const int32_t block : blocks) pool_.release(block);
      log(LogLevel::kWarning, fmt::format("prefix cache: files are not used any more: {}", error.what()));
      files_.reset();
      throw CacheLost();
    }
    for (const int32_t block : blocks) {
      pool_.name(block, text.prefix, name_of_block(sequence, text.blocks.size()));
      text.blocks.push_back(block);
      ++text.named;
      ++text.from_files;
    }
  }
}

// The blocks of a text that has ended, from its beginning, as long as the disk follows.
void SequenceCache::write_files(const Sequence& sequence) {
  const auto text = texts_.find(&sequence);
  if (text == texts_.end() || !has_files(sequence)) return;
  std::vector<std::string> keys;
  std::vector<int32_t> blocks;
  try {
    for (size_t i = 0; i < text->second.named; ++i) {
      if (const std::string& key = file_key(sequence, i); !files_->has(key)) {
        keys.push_back(key);
        blocks.push_back(text->second.blocks[i]);
      }
      if (blocks.empty() || (blocks.size() < BlockTransfer::kAtOnce && i + 1 < text->second.named)) continue;
      std::vector<std::vector<std::byte>> contents = program_.read_blocks(blocks);
      for (size_t j = 0; j < keys.size(); ++j)
        if (!files_->write(keys[j], std::move(contents[j]))) return;
      keys.clear(), blocks.clear();
    }
  } catch (const std::exception& error) {  // the text has ended well all the same
    log(LogLevel::kWarning, fmt::format("prefix cache: a text is not kept in files: {}", error.what()));
  }
}

// ---- beams

void SequenceCache::fork(const std::vector<Sequence*>& beams, const std::vector<size_t>& sources) {
  std::vector<SequenceBlocks> texts;
  for (const Sequence* beam : beams) {
    texts.push_back(of(*beam));
    texts.back().seen = beam->seen;
  }
  make_room(copies_of_fork(block_size_, texts, sources));
  for (const Sequence* beam : beams) {
    of(*beam) = {};
    keys_.erase(beam);  // it has another text now
  }
  const BlockCopies copies = fork_sequences(pool_, block_size_, texts, sources);
  for (size_t i = 0; i < texts.size(); ++i) {
    beams[i]->seen = texts[i].seen;
    of(*beams[i]) = std::move(texts[i]);
  }
  program_.copy_blocks(copies);
}

// ---- what is given up

void SequenceCache::give_up(Sequence& sequence) {
  const auto found = texts_.find(&sequence);
  if (found == texts_.end()) return;
  std::vector<int32_t>& blocks = found->second.blocks;
  // From the end, so that the beginnings, which others are likelier to share, stay longest.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) pool_.release(*block);
  found->second = {};
  sequence.seen = 0;
}

void SequenceCache::forget(Sequence& sequence) {
  write_files(sequence);
  give_up(sequence);
  keys_.erase(&sequence);
  texts_.erase(&sequence);
}

int64_t SequenceCache::lose_all(Sequences sequences) {
  int64_t count = 0;
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    count += holds(*sequence);
    give_up(*sequence);
  }
  pool_.clear();
  return count;
}

}  // namespace transom
