// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "inputs/text/components/components.h"
#include "inputs/text/token_models/token_trie.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

// The most probable sequence of tokens (Kudo 2018), by Viterbi's algorithm over a trie of the vocabulary. A character
// that no token covers counts as unknown, ten below the smallest score; neighbouring unknown characters are one token,
// or the tokens of their bytes with byte_fallback.
class Unigram : public TokenModel {
 public:
  Unigram(const Json& json, const Vocabulary& vocabulary, const std::vector<double>& scores, const std::string& where);
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  const Vocabulary& vocabulary_;
  const std::vector<double>& scores_;
  TokenTrie trie_;
  std::array<int64_t, 256> byte_tokens_{};
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
  bool byte_fallback_;
  std::string where_;
};

}  // namespace transom::text
