// SPDX-License-Identifier: Apache-2.0
// Tokens beside the model's vocabulary: found in the text before anything is normalised, or, those that say so, after
// it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "text/components.h"

namespace transom::text {

struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // `normalizer` (or null) is applied to the contents of tokens that are looked for in normalised text.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  void find_in_original(AlignedText& text) const { find(text, original_); }
  void find_in_normalized(AlignedText& text) const { find(text, normalized_); }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(int64_t id) const;
  const AddedToken* by_content(std::string_view content) const;

 private:
  struct Pattern {
    std::string text;
    size_t token;
  };
  // Patterns by their first byte, long ones first.
  using Patterns = std::unordered_map<char, std::vector<Pattern>>;
  void find(AlignedText& text, const Patterns& patterns) const;

  std::vector<AddedToken> tokens_;
  Patterns original_, normalized_;
  std::unordered_map<int64_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
};

std::vector<AddedToken> parse_added_tokens(const Json& json, const std::string& where);

}  // namespace transom::text
