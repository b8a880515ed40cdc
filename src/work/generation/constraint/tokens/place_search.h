// SPDX-License-Identifier: Apache-2.0
// What the tokens of a vocabulary do that begin at a place of a grammar, found by a walk through their trie.
//
// Most places of a grammar differ from another one in a few tokens only: one within a text from the next one within it,
// a begun name from a free one. Both are then read at once, and below the nodes of the trie at which they come to the
// same set of places nothing is looked at.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "work/generation/constraint/tokens/bytes_behind.h"
#include "work/generation/constraint/tokens/relative_sets.h"
#include "work/generation/constraint/tokens/token_trie.h"
#include "work/generation/constraint/tokens/work_time.h"

namespace transom::constraint {

using Mask = std::vector<uint32_t>;

// What tokens hold behind the end of a rule, as a tree of bytes. 0 stands for none; node 0 is where all begin.
struct TokenRests {
  struct Node {
    uint32_t child = 0, sibling = 0;  // the first node below it, the next one beside it
    uint32_t token = 0;               // the first one that ends here
    uint8_t byte = 0;
  };
  struct Token {
    int32_t id = 0;
    uint32_t next = 0;
    uint32_t node = 0;  // of the trie, where it ends
  };
  std::vector<Node> nodes = std::vector<Node>(1);
  std::vector<Token> tokens = std::vector<Token>(1);
  size_t bytes() const { return nodes.capacity() * sizeof(Node) + tokens.capacity() * sizeof(Token); }
};

struct TokensOfPlace {
  Mask inside;                      // empty: they are `few`
  std::vector<int32_t> few;         // a list of them
  std::optional<TokenRests> rests;  // not made where the text ends with the rule
  // The place that this one is found beside: its rests count too, but for those below the nodes [first, last) of the
  // trie, which are in order.
  std::shared_ptr<const TokensOfPlace> base;
  std::vector<std::pair<uint32_t, uint32_t>> apart;
  // Of one that was found by itself: others may be found beside it.
  RelativeSets::OfBytes first{};  // the sets behind the first byte
  ByteSet behind;                 // what rests may begin with
  bool is_apart(uint32_t node) const;
  void add_to(Mask& mask) const;
  void list_few();  // instead of the mask, where that is shorter
  size_t bytes() const {
    return (inside.size() + few.size()) * sizeof(uint32_t) + sizeof(*this) + (rests ? rests->bytes() : 0);
  }
};

class PlaceSearch {
 public:
  // `known`: those beside which the place may be found, of the same sets. `behind`: bytes that may follow its rule.
  PlaceSearch(const TokenTrie& trie, std::shared_ptr<RelativeSets> relative, Place place, const ByteSet& behind,
              bool with_rests, std::span<const std::shared_ptr<const TokensOfPlace>> known);

  bool go_on(WorkTime& time);  // false: the time is over
  const std::shared_ptr<TokensOfPlace>& found() const { return found_; }
  const std::shared_ptr<RelativeSets>& relative() const { return relative_; }
  // Whether it is worth to find others beside it.
  bool is_large() const { return !found_->base && read_ > kSmall; }

 private:
  static constexpr size_t kSmall = 2048;  // nodes of the trie
  void begin();
  void begin_alone();
  bool step(WorkTime& time);
  bool add_rests(WorkTime& time);
  void read_apart(size_t i);

  const TokenTrie& trie_;
  std::shared_ptr<RelativeSets> relative_;
  std::shared_ptr<TokensOfPlace> found_;
  std::vector<int32_t> sets_, sets_of_base_;  // by depth, of the nodes above `next_`
  size_t next_ = 0;                           // of the trie
  size_t apart_until_ = 0;                    // up to here the base is not looked at
  size_t read_ = 0;                           // nodes
  // The nodes of the trie that are being added to the rests: those below one of depth `rest_depth_`.
  size_t rest_next_ = 0, rest_end_ = 0, rest_depth_ = 0;
  std::vector<uint32_t> rest_path_;
};

}  // namespace transom::constraint
