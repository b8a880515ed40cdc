// SPDX-License-Identifier: Apache-2.0
// The tokens of a vocabulary by their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace transom::constraint {

// Nodes in the order of a walk: behind a node come those below it.
class TokenTrie {
 public:
  // The bytes of each token by its id; those without bytes are left out.
  explicit TokenTrie(const std::vector<std::string>& tokens);

  struct Node {
    uint8_t byte;
    uint16_t depth;         // 1: the first byte
    uint16_t longest;       // the most bytes of a token behind this node
    uint32_t next;          // the node behind those below this one
    uint32_t tokens_begin;  // the tokens that end here: [tokens_begin, that of the next node)
  };
  size_t size() const { return nodes_.size() - 1; }
  const Node& operator[](size_t i) const { return nodes_[i]; }
  std::span<const int32_t> tokens_at(size_t i) const {
    return {tokens_.data() + nodes_[i].tokens_begin, nodes_[i + 1].tokens_begin - nodes_[i].tokens_begin};
  }
  // Those that end there or below.
  std::span<const int32_t> tokens_from(size_t i) const {
    return {tokens_.data() + nodes_[i].tokens_begin, nodes_[nodes_[i].next].tokens_begin - nodes_[i].tokens_begin};
  }
  size_t vocabulary_size() const { return bytes_.size(); }
  const std::string& bytes_of(int64_t token) const { return bytes_[static_cast<size_t>(token)]; }
  uint16_t most_depth() const { return most_depth_; }

 private:
  std::vector<Node> nodes_;  // and one behind the last
  std::vector<int32_t> tokens_;
  std::vector<std::string> bytes_;
  uint16_t most_depth_ = 0;
};

}  // namespace transom::constraint
