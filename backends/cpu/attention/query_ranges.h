// SPDX-License-Identifier: Apache-2.0
// How attention to the keys of each query's own text is cut, which is known when it runs: blocks of neighbouring
// queries whose keys overlap, and groups of blocks that share no key with another group.
#pragma once

#include <utility>
#include <vector>

#include "cpu/attention/attention_plan.h"

namespace transom::cpu {

class QueryRanges {
 public:
  // ranges [B, T, 2]
  QueryRanges(const AttentionPlan& plan, const int64_t* ranges);

  // The keys that a query sees, [first, second); none where they are equal.
  std::pair<int64_t, int64_t> visible(int64_t row, int64_t query) const;

  struct Block {
    int64_t row;
    QueryBlock block;  // no keys: none of the queries sees any
  };
  const std::vector<Block>& blocks() const { return blocks_; }

  // Blocks [first, last) of one row, and all keys that they see.
  struct Group {
    size_t first, last;
    int64_t row, key, keys;
  };
  const std::vector<Group>& groups() const { return groups_; }

 private:
  void add_row(int64_t row);
  void group_row(size_t first, int64_t row);

  const AttentionPlan& plan_;
  const int64_t* ranges_;
  std::vector<Block> blocks_;
  std::vector<Group> groups_;
};

}  // namespace transom::cpu
