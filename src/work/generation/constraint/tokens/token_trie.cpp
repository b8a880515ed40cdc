// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/token_trie.h"

#include <algorithm>
#include <numeric>

namespace transom::constraint {

TokenTrie::TokenTrie(const std::vector<std::string>& tokens) : bytes_(tokens) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokens[i].empty() && tokens[i].size() < 1024) order.push_back(static_cast<int32_t>(i));
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const std::string &x = tokens[static_cast<size_t>(a)], &y = tokens[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
  std::vector<uint32_t> path;  // the nodes above the place where the next one goes
  std::string before;
  for (const int32_t token : order) {
    const std::string& bytes = tokens[static_cast<size_t>(token)];
    const auto shared = static_cast<size_t>(
        std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first - before.begin());
    while (path.size() > shared) nodes_[path.back()].next = static_cast<uint32_t>(nodes_.size()), path.pop_back();
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(bytes[depth]), static_cast<uint16_t>(depth + 1), 0, 0,
                        static_cast<uint32_t>(tokens_.size())});
      most_depth_ = std::max(most_depth_, static_cast<uint16_t>(depth + 1));
    }
    for (size_t depth = 0; depth < path.size(); ++depth) {
      uint16_t& longest = nodes_[path[depth]].longest;
      longest = std::max(longest, static_cast<uint16_t>(bytes.size() - depth - 1));
    }
    tokens_.push_back(token);
    before = bytes;
  }
  for (const uint32_t node : path) nodes_[node].next = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, 0, 0, static_cast<uint32_t>(nodes_.size()), static_cast<uint32_t>(tokens_.size())});
}

}  // namespace transom::constraint
