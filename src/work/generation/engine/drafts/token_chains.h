// SPDX-License-Identifier: Apache-2.0
// Where the last tokens of a text stand in other tokens: what a suffix tree finds, without the tree. Places behind the
// same two tokens are chained, the latest first, and each is compared with the text backwards.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace transom {

class TokenChains {
 public:
  // Between texts; no match goes across.
  static constexpr int64_t kEnd = -1;
  // Matches have at least so many tokens, and so many of the latest places are looked at.
  static constexpr int64_t kLeast = 2, kMost = 64;
  // What a token takes, about.
  static constexpr int64_t kBytes = 64;

  struct Match {
    size_t next = 0;     // the place behind it, where there is a token
    int64_t length = 0;  // tokens
  };

  void add(int64_t token);
  // Of the last tokens of `text`, which may be the tokens that stand here; each of at most `depth` tokens.
  std::vector<Match> find(std::span<const int64_t> text, int64_t depth) const;
  size_t size() const { return tokens_.size(); }
  int64_t at(size_t place) const { return tokens_[place]; }  // kEnd too

 private:
  std::vector<int32_t> tokens_, before_;  // before_[p]: the place before p behind the same two tokens; -1: none
  std::unordered_map<uint64_t, int32_t> last_;
};

}  // namespace transom
