// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inputs/text/components/components.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

// The longest token at the front of the word, then the longest continuation, and so on (Wu et al. 2016); one unknown
// token for a word that cannot be covered or is too long.
class WordPiece : public TokenModel {
 public:
  WordPiece(const Json& json, const Vocabulary& vocabulary, const std::string& where);
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  const Vocabulary& vocabulary_;
  std::string prefix_;
  size_t maximum_characters_;
  int64_t unknown_;
};

// A token for each word.
class WordLevel : public TokenModel {
 public:
  WordLevel(const Json& json, const Vocabulary& vocabulary, const std::string& where);
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  const Vocabulary& vocabulary_;
  int64_t unknown_;
};

}  // namespace transom::text
