// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "text/components.h"
#include "text/vocabulary.h"

namespace transom::text {

// The most probable sequence of tokens (Kudo 2018), by Viterbi's algorithm over a trie of the vocabulary. A character
// that no token covers counts as unknown, ten below the smallest score; neighbouring unknown characters are one token,
// or the tokens of their bytes with byte_fallback.
class Unigram : public TokenModel {
 public:
  Unigram(const Json& json, const Vocabulary& vocabulary, const std::vector<double>& scores, const std::string& where);
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  struct Edge {
    uint64_t from = UINT64_MAX;  // node and byte; this value: an empty slot
    uint32_t to = 0;
  };
  uint32_t& child(uint32_t node, char byte);            // 0 in a new slot
  uint32_t find_child(uint32_t node, char byte) const;  // 0: none
  void add(std::string_view token, int32_t id);

  const Vocabulary& vocabulary_;
  const std::vector<double>& scores_;
  std::vector<Edge> edges_;       // a hash table
  std::vector<int32_t> node_id_;  // the token that ends at the node, or -1
  std::array<int64_t, 256> byte_tokens_{};
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
  bool byte_fallback_;
  std::string where_;
};

}  // namespace transom::text
