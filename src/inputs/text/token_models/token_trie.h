// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace transom::text {

// The tokens that begin at a place of a text, found in one walk: a trie of bytes, its edges in a hash table.
class TokenTrie {
 public:
  // For about `tokens` tokens.
  explicit TokenTrie(size_t tokens);
  // An id is at least 0; the last of several for one token stands. An error if the tokens are too long together.
  void add(std::string_view token, int32_t id);

  // Calls found(end, id) for each token that begins at byte `begin` of `text`, the shortest first.
  template <typename Found>
  void find(std::string_view text, size_t begin, const Found& found) const {
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      node = child(node, text[end++]);
      if (node == 0) return;
      if (const int32_t id = ids_[node]; id >= 0) found(end, id);
    }
  }

 private:
  struct Edge {
    uint64_t from = UINT64_MAX;  // node and byte; this value: an empty slot
    uint32_t to = 0;
  };
  static uint64_t key_of(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }
  size_t slot_of(uint64_t key) const { return ((key * 0x9E3779B97F4A7C15u) >> 24) & (edges_.size() - 1); }
  uint32_t child(uint32_t node, char byte) const {  // 0: none
    const uint64_t key = key_of(node, byte);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & (edges_.size() - 1)) {
      if (edges_[slot].from == key) return edges_[slot].to;
      if (edges_[slot].from == UINT64_MAX) return 0;
    }
  }
  void insert(uint64_t key, uint32_t to);

  std::vector<Edge> edges_;
  std::vector<int32_t> ids_;  // the token that ends at the node, or -1
};

}  // namespace transom::text
