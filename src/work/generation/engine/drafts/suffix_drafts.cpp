// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/suffix_drafts.h"

#include <algorithm>
#include <set>

namespace transom {
namespace {

// Lengths of matches that are tried: longer ones say more, shorter ones have more places.
constexpr size_t kLengthsTried = 4;
constexpr int64_t kBytesOfPart = 1024;  // besides its tokens

struct Occurrence {
  const TokenChains* places;
  size_t next;
  int64_t matched;
};

struct Continuation {
  TokenIds tokens;
  double likely = 0;  // the sum of how likely each token is: about how many will be right
  int64_t matched = 0;
};

// Of those that match in at least `matched` tokens what comes most often, then what comes most often behind that ...
Continuation likeliest(std::span<const Occurrence> all, int64_t matched, int64_t most, double least) {
  Continuation result{.matched = matched};
  std::vector<Occurrence> some;
  for (const Occurrence& each : all)
    if (each.matched >= matched) some.push_back(each);
  double likely = 1;
  while (static_cast<int64_t>(result.tokens.size()) < most) {
    std::vector<std::pair<int64_t, int64_t>> counts;  // in the order in which they are met: of equal ones the latest
    for (const Occurrence& each : some) {
      const int64_t token = each.next < each.places->size() ? each.places->at(each.next) : TokenChains::kEnd;
      const auto known = std::ranges::find(counts, token, [](const auto& pair) { return pair.first; });
      if (known == counts.end()) counts.emplace_back(token, 1);
      else ++known->second;
    }
    const auto first = std::ranges::max_element(counts, {}, [](const auto& pair) { return pair.second; });
    if (first == counts.end() || first->first == TokenChains::kEnd) break;
    likely *= static_cast<double>(first->second) / static_cast<double>(some.size());
    if (likely < least) break;
    const int64_t token = first->first;
    result.tokens.push_back(token);
    result.likely += likely;
    std::erase_if(some, [&](Occurrence& each) {
      return each.next >= each.places->size() || each.places->at(each.next) != token;
    });
    for (Occurrence& each : some) ++each.next;
  }
  return result;
}

// With their lengths, so that no two pairs have one name.
std::string group_of(const Sequence& sequence) {
  const EngineRequest& request = sequence.request().request;
  return std::to_string(request.tenant.size()) + ' ' + request.tenant + request.cache_salt;
}

}  // namespace

SuffixDrafts::SuffixDrafts(const DraftOptions& options) : options_(options) {}

void SuffixDrafts::draft(Draft& draft) {
  const TokenIds& text = draft.sequence->tokens();
  TokenChains& own = texts_[draft.sequence];
  while (own.size() < text.size()) own.add(text[own.size()]);
  std::vector<Occurrence> all;
  const auto look = [&](const TokenChains& places) {
    for (const TokenChains::Match& match : places.find(text, options_.suffix_depth))
      all.push_back({&places, match.next, match.length});
  };
  look(own);
  if (const auto group = groups_.find(group_of(*draft.sequence)); group != groups_.end())
    for (const Parts::iterator part : group->second) look(part->places);
  std::set<int64_t, std::greater<>> lengths;
  for (const Occurrence& each : all) lengths.insert(each.matched);
  Continuation best;
  size_t tried = 0;
  for (const int64_t matched : lengths) {
    if (tried++ == kLengthsTried) break;
    const auto longest = static_cast<int64_t>(options_.suffix_factor * static_cast<double>(matched));
    Continuation next =
        likeliest(all, matched, std::min(draft.most, std::max<int64_t>(longest, 1)), options_.suffix_least);
    if (next.likely > best.likely) best = std::move(next);
  }
  draft.tokens = std::move(best.tokens);
  draft.matched = best.matched;
}

void SuffixDrafts::keep(const Sequence& sequence) {
  const TokenIds& text = sequence.tokens();
  const auto prompt = static_cast<size_t>(sequence.request().prompt_length());
  if (options_.suffix_bytes <= 0 || text.size() < prompt + 2 || sequence.group()) return;
  const Parts::iterator part = part_for(group_of(sequence));
  part->places.add(TokenChains::kEnd);
  for (size_t i = prompt; i < text.size(); ++i) part->places.add(text[i]);
  bytes_ += static_cast<int64_t>(text.size() - prompt + 1) * TokenChains::kBytes;
  while (bytes_ > options_.suffix_bytes) drop_oldest();
}

// A part has a quarter of the memory, so that not all is forgotten at once.
SuffixDrafts::Parts::iterator SuffixDrafts::part_for(const std::string& group) {
  std::list<Parts::iterator>& own = groups_[group];
  if (!own.empty()) {
    const auto tokens = static_cast<int64_t>(own.back()->places.size());
    if (tokens * TokenChains::kBytes < options_.suffix_bytes / 4) return own.back();
  }
  parts_.push_back({.group = group});
  own.push_back(std::prev(parts_.end()));
  bytes_ += kBytesOfPart + static_cast<int64_t>(2 * group.size());
  return own.back();
}

void SuffixDrafts::drop_oldest() {
  const Part& oldest = parts_.front();
  bytes_ -= kBytesOfPart + static_cast<int64_t>(2 * oldest.group.size() + oldest.places.size() * TokenChains::kBytes);
  const auto group = groups_.find(oldest.group);
  group->second.pop_front();
  if (group->second.empty()) groups_.erase(group);
  parts_.pop_front();
}

}  // namespace transom
