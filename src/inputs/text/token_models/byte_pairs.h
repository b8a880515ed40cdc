// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <utility>

#include "inputs/text/components/components.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

// Byte pair encoding (Sennrich et al. 2016): the characters of a piece are joined pair by pair, the earliest learnt
// merge first. Dropout is for training tokenizers and is not applied.
class BytePairs : public TokenModel {
 public:
  BytePairs(const Json& json, const Vocabulary& vocabulary,
            const std::vector<std::pair<std::string, std::string>>& merges, const std::string& where);
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  struct Merge {
    uint64_t pair = UINT64_MAX;  // the two ids; this value: an empty slot
    uint32_t rank = 0;
    int32_t id = 0;
  };
  const Merge* merge_of(int64_t left, int64_t right) const;
  void insert(uint64_t pair, uint32_t rank, int64_t id);
  void join(std::vector<ModelToken>& tokens, size_t first) const;

  const Vocabulary& vocabulary_;
  std::vector<Merge> merges_;  // a hash table
  std::array<int64_t, 256> byte_tokens_{};
  std::string prefix_, suffix_;
  int64_t unknown_ = -1;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
};

}  // namespace transom::text
