// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text before the model sees it: special tokens and those added to a finished vocabulary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/text/components/components.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes the spaces to its left along
  bool rstrip = false;       // and to its right
  bool normalized = true;    // looked for in the normalised text
  bool special = false;      // decode() may pass over it
};

// Finds the longest token at each place, from left to right.
class TokenFinder {
 public:
  // `content` as it stands in the text that will be searched.
  void add(std::string content, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Calls emit(begin, end, token) for the parts of `text`, in order; token is -1 between the tokens. Those of `passed`,
  // which ascend, are text.
  template <typename Emit>
  void split(std::string_view text, std::span<const int64_t> passed, const Emit& emit) const {
    size_t last = 0;
    for (size_t at = 0; at < text.size();) {
      size_t begin = at, end = at;
      const int64_t token = match(text, last, begin, end, at);
      if (token < 0 || std::binary_search(passed.begin(), passed.end(), token)) continue;
      if (begin > last) emit(last, begin, int64_t{-1});
      emit(begin, end, token);
      last = end;
    }
    if (last < text.size()) emit(last, text.size(), int64_t{-1});
  }

 private:
  // The token at `at` and its range with the spaces it takes; -1 if there is none. `at` moves to where to look next:
  // behind the token itself, even if spaces behind it belong to it, with which another may begin.
  int64_t match(std::string_view text, size_t last, size_t& begin, size_t& end, size_t& at) const;

  std::map<std::string, AddedToken, std::less<>> tokens_;  // by content; there may be thousands
  std::vector<size_t> lengths_[256];                       // of those that begin with a byte, longest first
};

class AddedTokens {
 public:
  // Reads "added_tokens"; their texts and ids are entered into `vocabulary`.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, Vocabulary& vocabulary);

  // The text cut into added tokens and the normalised rest. `split_special`: special ones are text.
  Pieces extract(std::string_view text, const Normalizer* normalizer, bool split_special = false) const;
  // Whether decode() may pass over it. Hugging Face's tokenizers compare texts for that: a special token whose text the
  // normaliser changes is no longer known for one.
  bool is_skipped(int64_t id) const;
  std::vector<int64_t> special_ids() const;
  // Besides those that say so themselves.
  void add_special(int64_t id);

 private:
  TokenFinder raw_, normalized_;
  std::vector<int64_t> special_, skipped_;  // ascending
};

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& where);

}  // namespace transom::text
