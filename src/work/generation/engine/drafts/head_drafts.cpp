// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/head_drafts.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

// A text that is new begins behind the tokens that it shares with others, which have been through the head.
bool HeadDrafts::follows(const StepPart& part) {
  if (part.sequence->finished() || part.sequence->group()) return false;
  const auto [known, is_new] = seen_.try_emplace(part.sequence, part.begin);
  if (known->second < part.begin) known->second = -1;
  return known->second >= 0;
}

void HeadDrafts::follow(std::span<const StepPart* const> parts, const PagedPass& pass) {
  std::vector<const StepPart*> some;
  for (const StepPart* part : parts) {
    drafts_.erase(part->sequence);
    if (!follows(*part)) continue;
    if (!program_.states().defined()) seen_[part->sequence] = -1;
    else some.push_back(part);
  }
  if (some.empty()) return;
  for (const StepPart* part : some) seen_[part->sequence] = part->sequence->seen;
  std::vector<Writing> writings = first_tokens(parts, pass);
  while (true) {
    std::vector<Writing*> unfinished;
    for (Writing& writing : writings)
      if (static_cast<int64_t>(writing.tokens.size()) < writing.count) unfinished.push_back(&writing);
    if (unfinished.empty()) break;
    next_tokens(unfinished);
  }
  for (Writing& writing : writings)
    if (writing.count > 0) drafts_[writing.part->sequence] = {writing.part->sequence->length(), writing.tokens};
}

// The head goes over the tokens of the model's pass, each with the one behind it; rows of others, and those behind
// which no token is known, leave no keys.
std::vector<HeadDrafts::Writing> HeadDrafts::first_tokens(std::span<const StepPart* const> parts,
                                                          const PagedPass& pass) {
  PagedPass own = pass;
  std::vector<Writing> writings;
  std::vector<size_t> rows;
  int64_t tokens = 0;
  for (const StepPart* part : parts) tokens += part->count;
  size_t row = pass.ids.size() - static_cast<size_t>(tokens);
  const size_t first_scored = pass.ids.size() - static_cast<size_t>(pass.scored);
  for (const bool scored : {false, true})
    for (const StepPart* part : parts)
      for (int64_t place = part->begin; place < part->end(); ++place) {
        if (part->is_scored(place) != scored) continue;
        const Sequence& sequence = *part->sequence;
        const auto known = seen_.find(&sequence);
        const bool goes = known != seen_.end() && known->second >= 0 && !sequence.finished() && place < sequence.seen &&
                          place + 1 < sequence.length() &&
                          (head_.max_positions() == 0 || place < head_.max_positions());
        own.ids[row] = goes ? sequence.tokens()[static_cast<size_t>(place) + 1] : 0;
        if (!goes) own.slots[row] = -1;
        // A part of a prompt may end before its last token: there are no scores behind it.
        if (goes && scored && place + 2 == sequence.length()) {
          writings.push_back({.part = part});
          rows.push_back(row - first_scored);
        }
        ++row;
      }
  choose_counts(writings);
  const PagedProgram::HeadResult result = program_.run_head(own, program_.states(), true);
  for (size_t i = 0; i < writings.size(); ++i)
    if (writings[i].count > 0) read(writings[i], result, rows[i]);
  return writings;
}

// As many as there is room for in the blocks that the texts have.
void HeadDrafts::choose_counts(std::vector<Writing>& writings) {
  std::vector<Draft> drafts;
  for (const Writing& writing : writings) {
    const Sequence& sequence = *writing.part->sequence;
    const int64_t room = static_cast<int64_t>(writing.part->text->blocks.size()) * block_size_ - sequence.length() + 2;
    int64_t most = std::min({most_, sequence.request().length - sequence.length() - 1, room});
    if (head_.max_positions() > 0) most = std::min(most, head_.max_positions() - sequence.length() + 1);
    if (sequence.request().request.prompt_lookup_num_tokens > 0) most = 0;
    drafts.push_back({.sequence = &sequence, .most = std::max<int64_t>(most, 0)});
  }
  const auto count = static_cast<int64_t>(drafts.size());
  const std::vector<int64_t> counts = pace_.worth(drafts, count, most_tokens_ - count);
  for (size_t i = 0; i < drafts.size(); ++i) {
    writings[i].count = counts[i];
    if (pace_.knows(count) && drafts[i].most > 0 && counts[i] == 0) seen_[drafts[i].sequence] = -1;
  }
}

// One token more of each, which the head reads behind its own states.
void HeadDrafts::next_tokens(std::vector<Writing*>& some) {
  std::vector<PassToken> tokens;
  for (const Writing* writing : some)
    tokens.push_back({.id = writing->tokens.back(),
                      .place = writing->part->sequence->length() - 2 + static_cast<int64_t>(writing->tokens.size()),
                      .blocks = &writing->part->text->blocks});
  const PagedPass pass = pass_of({}, tokens, block_size_, most_tokens_, {});
  const auto N = static_cast<int64_t>(pass.ids.size());
  const size_t padding = pass.ids.size() - some.size();
  std::vector<float> states(padding * static_cast<size_t>(head_.width()), 0.0F);
  for (const Writing* writing : some) states.insert(states.end(), writing->states.begin(), writing->states.end());
  const PagedProgram::HeadResult result = program_.run_head(pass, Tensor::from(states, {1, N, head_.width()}), false);
  const size_t first = static_cast<size_t>(pass.scored) - some.size();
  for (size_t i = 0; i < some.size(); ++i) read(*some[i], result, first + i);
}

// The likeliest token by a row of the scores.
void HeadDrafts::read(Writing& writing, const PagedProgram::HeadResult& result, size_t row) const {
  const auto width = static_cast<size_t>(head_.width());
  const size_t count = result.states.size() / width, V = result.scores.size() / count;
  if (row >= count) fail(ErrorKind::kInternal, "row {} of a head for drafts is read, which has {}", row, count);
  const auto begin = result.scores.begin() + static_cast<ptrdiff_t>(row * V);
  const auto best = std::max_element(begin, begin + static_cast<ptrdiff_t>(V)) - begin;
  writing.tokens.push_back(head_.token_of(best));
  const auto states = result.states.begin() + static_cast<ptrdiff_t>(row * width);
  writing.states.assign(states, states + static_cast<ptrdiff_t>(width));
}

TokenIds HeadDrafts::take(const Sequence& sequence) {
  const auto found = drafts_.find(&sequence);
  if (found == drafts_.end()) return {};
  auto [length, tokens] = std::move(found->second);
  drafts_.erase(found);
  return length == sequence.length() ? tokens : TokenIds();
}

}  // namespace transom
