// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/query_ranges.h"

#include <algorithm>

namespace transom::cpu {
namespace {

constexpr int64_t kScoresTogether = 1 << 16;  // of a block: a quarter of a megabyte

// How many queries a block has at most, where they see so many keys.
int64_t queries_together(int64_t keys, bool causal) {
  const int64_t together = std::clamp<int64_t>(kScoresTogether / std::max<int64_t>(keys, 1), 16, 128);
  return causal && together > 64 && keys <= 128 ? 64 : together;
}

}  // namespace

QueryRanges::QueryRanges(const AttentionPlan& plan, const int64_t* ranges) : plan_(plan), ranges_(ranges) {
  for (int64_t row = 0; row < plan.B; ++row) {
    const size_t first = blocks_.size();
    add_row(row);
    group_row(first, row);
  }
}

std::pair<int64_t, int64_t> QueryRanges::visible(int64_t row, int64_t query) const {
  const int64_t* range = ranges_ + (row * plan_.T + query) * 2;
  const auto [first, end] = plan_.visible(query);
  const int64_t begin = std::max({first, range[0], int64_t{0}});
  return {begin, std::max(begin, std::min({end, range[1], plan_.S}))};
}

void QueryRanges::add_row(int64_t row) {
  QueryBlock block{0, 0, 0, 0};
  int64_t most = 0;
  for (int64_t query = 0; query < plan_.T; ++query) {
    const auto [first, end] = visible(row, query);
    const int64_t block_end = block.key + block.keys;
    const bool overlaps = first < block_end && end > block.key, none = first == end;
    if (block.queries > 0 && block.queries < most && (none || block.keys == 0 || overlaps)) {
      ++block.queries;
      if (none) continue;
      const int64_t begin = block.keys == 0 ? first : std::min(block.key, first);
      block.keys = std::max(block.keys == 0 ? end : block_end, end) - begin;
      block.key = begin;
      continue;
    }
    if (block.queries > 0) blocks_.push_back({row, block});
    block = {query, 1, first, end - first};
    const int64_t* range = ranges_ + (row * plan_.T + query) * 2;
    most = queries_together(std::min(range[1], plan_.S) - std::max<int64_t>(range[0], 0), plan_.causal);
  }
  if (block.queries > 0) blocks_.push_back({row, block});
}

void QueryRanges::group_row(size_t first, int64_t row) {
  const size_t before = groups_.size();
  bool in_order = true;  // later blocks see later keys
  for (size_t i = first; i < blocks_.size(); ++i) {
    const QueryBlock& block = blocks_[i].block;
    if (groups_.size() == before) {
      groups_.push_back({i, i + 1, row, block.key, block.keys});
      continue;
    }
    Group& last = groups_.back();
    const int64_t end = last.key + last.keys;
    if (block.keys == 0) {
      last.last = i + 1;
    } else if (last.keys == 0) {
      last = {last.first, i + 1, row, block.key, block.keys};
    } else if (block.key < end) {
      in_order = in_order && block.key >= last.key;
      const int64_t begin = std::min(last.key, block.key);
      last = {last.first, i + 1, row, begin, std::max(end, block.key + block.keys) - begin};
    } else {
      groups_.push_back({i, i + 1, row, block.key, block.keys});
    }
  }
  if (in_order || groups_.size() <= before + 1) return;
  groups_.resize(before);
  groups_.push_back({first, blocks_.size(), row, 0, plan_.S});
}

}  // namespace transom::cpu
