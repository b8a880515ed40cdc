// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/token_chains.h"

#include <limits>

namespace transom {
namespace {

uint64_t pair_of(int64_t first, int64_t second) {
  return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32 | static_cast<uint32_t>(second);
}

}  // namespace

// A place is chained when it is filled, by the two tokens before it.
void TokenChains::add(int64_t token) {
  const size_t place = tokens_.size();
  if (place >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) return;
  tokens_.push_back(static_cast<int32_t>(token));
  before_.push_back(-1);
  if (place < 2 || token == kEnd || tokens_[place - 1] == kEnd || tokens_[place - 2] == kEnd) return;
  const auto [known, is_new] =
      last_.try_emplace(pair_of(tokens_[place - 2], tokens_[place - 1]), static_cast<int32_t>(place));
  if (is_new) return;
  before_[place] = known->second;
  known->second = static_cast<int32_t>(place);
}

std::vector<TokenChains::Match> TokenChains::find(std::span<const int64_t> text, int64_t depth) const {
  std::vector<Match> matches;
  const auto size = static_cast<int64_t>(text.size());
  if (size < kLeast) return matches;
  const auto from_end = [&](int64_t n) { return text[static_cast<size_t>(size - 1 - n)]; };
  const auto found = last_.find(pair_of(from_end(1), from_end(0)));
  if (found == last_.end()) return matches;
  for (int64_t place = found->second, n = 0; place >= 0 && n < kMost;
       place = before_[static_cast<size_t>(place)], ++n) {
    int64_t length = kLeast;
    while (length < depth && length < size && length < place &&
           tokens_[static_cast<size_t>(place - 1 - length)] == from_end(length))
      ++length;
    matches.push_back({static_cast<size_t>(place), length});
  }
  return matches;
}

}  // namespace transom
