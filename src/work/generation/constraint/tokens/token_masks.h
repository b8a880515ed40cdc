// SPDX-License-Identifier: Apache-2.0
// Which tokens a grammar allows from a place, found once and kept.
//
// Of a token that begins at a place, what it does inside of the rule depends on the place alone; only where it goes on
// behind the end of the rule the places that calls return to matter. So each place keeps the mask of the tokens that
// stay inside, and a small tree of what the others hold behind the end, which is looked at with the places at hand.
// (Dong et al., XGrammar, 2024, splits tokens in the same way.)
//
// In an ambiguous grammar a mask may take seconds. A search therefore stops where its time is over and goes on later.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "work/generation/constraint/tokens/place_search.h"

namespace transom::constraint {

// Finds the mask of a set of places, one after the other; copies go on by themselves.
struct MaskSearch {
  explicit MaskSearch(Places from) : places(std::move(from)) {}
  Places places;
  Mask mask;  // empty: not begun
  std::string key;
  size_t next = 0;                             // of the places
  std::shared_ptr<PlaceSearch> place_search;   // of that place; others may go on with it too
  std::shared_ptr<const TokensOfPlace> found;  // its result, whose rests are being read
  struct Level {
    const TokenRests* rests;  // of `found`, or of its base
    uint32_t node;            // of these, the next one; those beside it follow
    Places places;            // where the text is before it
  };
  std::vector<Level> levels;
  // Of that place: those of its tokens that are found in the levels, and what they are kept under; empty: they are not.
  std::vector<int32_t> rests;
  std::string rests_key;
};

// A grammar for a vocabulary. Any thread may use it.
class CompiledGrammar {
 public:
  // What is found is dropped when it takes more than about so many bytes.
  CompiledGrammar(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t most_bytes = 64 << 20);

  const Grammar& grammar() const { return grammar_; }
  const TokenTrie& trie() const { return *trie_; }
  // The tokens that may follow; not those that end a text. Null where the time is over before they are found: then the
  // search is to go on, with the same stacks.
  std::shared_ptr<const Mask> go_on(MaskSearch& search, Stacks& stacks, WorkTime& time) const;
  // The same at once; throws where so many seconds of the thread's time are too short.
  std::shared_ptr<const Mask> allowed(const Places& places, Stacks& stacks, double seconds = 2) const;
  // Finds the masks of the places that are nearest to the start, for at most so many seconds. Throws where that is too
  // short for the first.
  void prepare(double seconds) const;

 private:
  using FoundPlace = std::shared_ptr<const TokensOfPlace>;
  using NodeAndCount = uint64_t;
  FoundPlace of_place(uint32_t node, uint32_t count, bool with_rests, std::shared_ptr<PlaceSearch>& search,
                      WorkTime& time) const;
  uint32_t alike(uint32_t node) const { return classes_.of(node, classes_.last()); }
  // The count that stands for that of a place, as far as tokens tell.
  uint32_t folded(uint32_t node, uint32_t count) const;
  FoundPlace keep(NodeAndCount key, const PlaceSearch& search) const;
  void begin_rests(MaskSearch& search, Stacks& stacks) const;
  bool read_rests(MaskSearch& search, Stacks& stacks, WorkTime& time) const;
  void keep_rests(MaskSearch& search) const;
  void forget() const;
  std::string key_of(const Places& places, const Stacks& stacks) const;

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  PlaceClasses classes_;
  BytesBehind behind_;
  size_t most_bytes_;
  mutable std::mutex mutex_;  // of all below, and of the searches while they go on
  // Searches that have begun keep the sets that their numbers are of.
  mutable std::shared_ptr<RelativeSets> relative_;
  mutable std::vector<FoundPlace> bases_;  // beside which others are found; the last one that was found first
  mutable std::unordered_map<NodeAndCount, FoundPlace> of_places_;
  mutable std::map<std::pair<NodeAndCount, bool>, std::weak_ptr<PlaceSearch>> searches_;
  mutable size_t place_bytes_ = 0, mask_bytes_ = 0;  // about
  mutable std::unordered_map<std::string, std::shared_ptr<const Mask>> masks_;
  // Tokens that go on behind the rule of a place, by the place and those that its calls return to: sets of places that
  // share some, such as those within a name that may be any, read them once.
  mutable std::unordered_map<std::string, std::vector<int32_t>> rests_;
  mutable size_t rests_bytes_ = 0;  // about
};

// Throws: the tokens are not found in time.
[[noreturn]] void fail_as_ambiguous();

}  // namespace transom::constraint
