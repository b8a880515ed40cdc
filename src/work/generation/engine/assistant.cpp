// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/assistant.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "work/generation/engine/paged/paged_pass.h"

namespace transom {
namespace {

const GenerativeModel& paged_writer(const Model& model) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer || !writer->can_generate() || writer->has_encoder() || writer->cache_expires_at() < 0 ||
      writer->position_axes() > 1)
    fail(ErrorKind::kUnsupported,
         "assistant: {} does not write through a paged cache: expected a decoder alone, with a head that predicts the "
         "next token",
         model.architecture());
  return *writer;
}

std::vector<KeyValueShape> shapes_of(const GenerativeModel& model) {
  std::vector<KeyValueShape> shapes;
  try {
    shapes = key_value_shapes(model);
  } catch (const Error& error) {
    fail(error.kind(), "assistant: {}", error.what());
  }
  // Tokens that are refused can be written over, but not taken out of a state.
  if (std::ranges::any_of(shapes, &KeyValueShape::is_state))
    fail(ErrorKind::kUnsupported, "assistant: {} keeps a state, which cannot go back behind a refused token",
         model.architecture());
  return shapes;
}

int64_t length_limit(const GenerativeModel& model) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (model.max_positions() > 0) limit = std::min(limit, model.max_positions());
  if (model.cache_expires_at() > 0) limit = std::min(limit, model.cache_expires_at() - 1);
  return limit;
}

// At first; it doubles.
int64_t first_blocks(int64_t block_size, int64_t most_tokens, int64_t blocks) {
  return std::min((most_tokens + block_size - 1) / block_size, blocks);
}

}  // namespace

Assistant::Assistant(const Model& model, int64_t vocabulary, int64_t block_size, int64_t most_tokens, int64_t blocks)
    : model_(paged_writer(model)),
      vocabulary_(vocabulary),
      own_vocabulary_(text_config_of(model.config()).get_int("vocab_size", vocabulary)),
      block_size_(block_size),
      most_tokens_(most_tokens),
      most_blocks_(blocks),
      limit_(length_limit(model_)),
      program_(model_, shapes_of(model_), first_blocks(block_size, most_tokens, blocks), block_size, blocks),
      pool_(first_blocks(block_size, most_tokens, blocks)) {}

void Assistant::draft(std::span<Draft> drafts) {
  if (ended_ || drafts.empty()) return;
  try {
    propose(drafts);
  } catch (const std::exception& error) {
    held_.clear();
    for (Draft& draft : drafts) draft.tokens.clear();
    if (const auto* known = dynamic_cast<const Error*>(&error); known && known->kind() == ErrorKind::kInterrupted)
      throw;
    ended_ = true;
    log(LogLevel::kWarning, fmt::format("the assistant model drafts no more: {}", error.what()));
  }
}

void Assistant::forget(const Sequence& sequence) {
  const auto found = held_.find(&sequence);
  if (found == held_.end()) return;
  for (const int32_t block : found->second.blocks) pool_.release(block);
  held_.erase(found);
}

void Assistant::propose(std::span<Draft> drafts) {
  std::vector<Work> works;
  for (Draft& draft : drafts) {
    draft.most = std::min(draft.most, limit_ - draft.sequence->length());
    if (draft.most < 1) continue;
    Held& held = held_[draft.sequence];
    if (prepare(draft, held)) works.push_back({&draft, &held});
  }
  while (!works.empty()) {
    read(works);
    std::erase_if(works,
                  [](const Work& work) { return static_cast<int64_t>(work.draft->tokens.size()) >= work.draft->most; });
  }
}

// Forgets what was seen and not written; the last token is read in any case.
bool Assistant::prepare(const Draft& draft, Held& held) {
  const TokenIds& tokens = draft.sequence->tokens();
  const auto same = std::mismatch(held.seen.begin(), held.seen.end(), tokens.begin(), tokens.end() - 1).first;
  held.seen.erase(same, held.seen.end());
  const bool knows_all = std::all_of(tokens.begin() + static_cast<ptrdiff_t>(held.seen.size()), tokens.end(),
                                     [&](int64_t token) { return token < own_vocabulary_; });
  return knows_all && reserve(held, draft.sequence->length() + draft.most - 1);
}

bool Assistant::reserve(Held& held, int64_t tokens) {
  const int64_t more = (tokens + block_size_ - 1) / block_size_ - static_cast<int64_t>(held.blocks.size());
  if (more > pool_.available() && pool_.size() < most_blocks_) {
    const int64_t grown = std::min(std::max(pool_.size(), more), most_blocks_ - pool_.size());
    program_.grow(grown);
    pool_.grow(grown);
  }
  if (more > pool_.available()) return false;
  for (int64_t i = 0; i < more; ++i) held.blocks.push_back(static_cast<int32_t>(pool_.take()));
  return true;
}

// All tokens that are not seen yet, and behind each text one more of the draft.
void Assistant::read(std::vector<Work>& works) {
  std::vector<PassToken> silent, scored;
  std::vector<Draft*> readers;
  const auto run = [&] {
    if (silent.empty() && scored.empty()) return;
    const PagedPass pass = pass_of(silent, scored, block_size_, most_tokens_, {});
    const std::span<const float> scores = program_.run(pass, {});
    const size_t V = scores.size() / static_cast<size_t>(pass.scored);
    const auto some = static_cast<ptrdiff_t>(std::min(V, static_cast<size_t>(vocabulary_)));
    auto row = scores.end() - static_cast<ptrdiff_t>(readers.size() * V);
    for (Draft* reader : readers) {
      reader->tokens.push_back(std::max_element(row, row + some) - row);
      row += static_cast<ptrdiff_t>(V);
    }
    silent.clear(), scored.clear(), readers.clear();
  };
  for (Work& work : works) {
    const TokenIds& tokens = work.draft->sequence->tokens();
    TokenIds& seen = work.held->seen;
    const size_t end = tokens.size() + work.draft->tokens.size();
    while (seen.size() < end) {
      const size_t place = seen.size();
      const int64_t id = place < tokens.size() ? tokens[place] : work.draft->tokens[place - tokens.size()];
      seen.push_back(id);
      const bool last = place + 1 == end;
      (last ? scored : silent).push_back({id, static_cast<int64_t>(place), &work.held->blocks});
      if (last) readers.push_back(work.draft);
      if (static_cast<int64_t>(silent.size() + scored.size()) == most_tokens_) run();
    }
  }
  run();
}

}  // namespace transom
