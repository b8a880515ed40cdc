// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/token_models/token_trie.h"

#include <bit>

#include "base/error.h"

namespace transom::text {

TokenTrie::TokenTrie(size_t tokens) : edges_(std::bit_ceil(tokens * 4 + 16)), ids_(1, -1) { ids_.reserve(tokens * 2); }

void TokenTrie::insert(uint64_t key, uint32_t to) {
  size_t slot = slot_of(key);
  while (edges_[slot].from != UINT64_MAX) slot = (slot + 1) & (edges_.size() - 1);
  edges_[slot] = {key, to};
}

void TokenTrie::add(std::string_view token, int32_t id) {
  require(ids_.size() + token.size() < UINT32_MAX / 4, "vocabulary: the tokens are longer than 1 GiB together");
  uint32_t node = 0;
  for (const char byte : token) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(ids_.size());
      if (ids_.size() * 2 > edges_.size()) {
        std::vector<Edge> old(edges_.size() * 2);
        old.swap(edges_);
        for (const Edge& edge : old)
          if (edge.from != UINT64_MAX) insert(edge.from, edge.to);
      }
      insert(key_of(node, byte), next);
      ids_.push_back(-1);
    }
    node = next;
  }
  ids_[node] = id;
}

}  // namespace transom::text
