// SPDX-License-Identifier: Apache-2.0
// Which tokens a grammar allows from a place, found once and kept.
//
// Of a token that begins at a place, what it does inside of the rule depends on the place alone; only where it goes on
// behind the end of the rule the places that calls return to matter. So each place keeps the mask of the tokens that
// stay inside, and a small tree of what the others hold behind the end, which is looked at with the places at hand.
// (Dong et al., XGrammar, 2024, splits tokens in the same way.)
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "generation/constraint/automaton.h"
#include "generation/constraint/token_trie.h"

namespace transom::constraint {

using Mask = std::vector<uint32_t>;

// The processor's time that this thread has taken.
double thread_seconds();

// A grammar for a vocabulary. Any thread may use it.
class CompiledGrammar {
 public:
  // What is found is dropped when it takes more than about so many bytes.
  CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes = 64 << 20);

  const Grammar& grammar() const { return grammar_; }
  const TokenTrie& trie() const { return *trie_; }
  // The tokens that may follow; not those that end a text. Takes at most so many seconds of the thread's time, else
  // throws: an ambiguous grammar could keep others waiting for long.
  std::shared_ptr<const Mask> allowed(const Places& places, Stacks& stacks, double seconds = 2) const;
  // Finds the masks of the places that are nearest to the start, for at most so many seconds. Throws where that is too
  // short for the first.
  void prepare(double seconds) const;

 private:
  // What tokens hold behind the end of a rule, as a tree of bytes.
  struct Rest {
    struct Node {
      std::vector<std::pair<uint8_t, uint32_t>> below;
      std::vector<int32_t> tokens;
    };
    std::vector<Node> nodes{1};
  };
  struct OfPlace {
    Mask inside;
    std::optional<Rest> rest;  // not made where the text ends with the rule
  };
  // Sets of places above a stack that is not known, by their number; 0 is the dead one.
  struct RelativeSet {
    Places places;
    std::vector<int32_t> behind;  // by byte; -1: not found yet
  };

  // Holds until it is called again.
  const OfPlace& of_place(uint32_t node, bool with_rest) const;
  void forget() const;
  int32_t relative(Places places) const;
  int32_t step(int32_t set, uint8_t byte) const;
  void add_rest(Rest& rest, size_t trie_node) const;
  void allow_rest(const Rest& rest, uint32_t at, const Places& places, Stacks& stacks, Mask& mask) const;
  std::string key_of(const Places& places, const Stacks& stacks) const;

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<uint32_t> alike_;  // the place whose tokens are those of a place too
  size_t most_bytes_;
  mutable std::mutex mutex_;  // of all below
  mutable Stacks relative_stacks_;
  mutable std::vector<RelativeSet> sets_;
  mutable std::map<std::vector<Place>, int32_t> known_sets_[2];  // by whether they have ended
  mutable std::unordered_map<uint32_t, std::unique_ptr<OfPlace>> of_places_;
  mutable size_t bytes_ = 0;  // about, of those above
  mutable double until_ = 0;  // of the thread's time, until when it may work
  mutable size_t checks_ = 0;
  void expect_time() const;
  mutable std::unordered_map<std::string, std::shared_ptr<const Mask>> masks_;
};

}  // namespace transom::constraint
