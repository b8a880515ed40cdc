// SPDX-License-Identifier: Apache-2.0
// A grammar read byte by byte: the set of places where the text may be, each with the places that calls return to, and
// what rules that count have counted there.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// Stacks of return places, equal ones shared. Stack 0 is empty.
class Stacks {
 public:
  // `folds`: counts that no text of at most so many bytes tells apart are one; 0: all differ.
  explicit Stacks(uint32_t folds = 0) : folds_(folds), entries_{{0, 0, 0, 0}} {}
  uint32_t folds() const { return folds_; }
  uint32_t push(uint32_t stack, uint32_t node, uint32_t count);
  uint32_t top(uint32_t stack) const { return entries_[stack].node; }
  uint32_t count(uint32_t stack) const { return entries_[stack].count; }
  uint32_t below(uint32_t stack) const { return entries_[stack].below; }
  uint32_t depth(uint32_t stack) const { return entries_[stack].depth; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t node, below, depth, count;
  };
  struct Key {
    uint32_t node, below, count;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
      return ((uint64_t{key.below} << 32 | key.node) * kOdd) ^ (key.count * (kOdd >> 7));
    }
  };
  uint32_t folds_;
  std::vector<Entry> entries_;
  std::unordered_map<Key, uint32_t, Hash> known_;
};

struct Place {
  uint32_t node, stack;
  uint32_t count = 0;  // of the counting edges of its rule
  friend bool operator==(const Place&, const Place&) = default;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// Sorted, each once; only places from which bytes are read.
struct Places {
  std::vector<Place> items;
  bool ended = false;  // the text (or what stack 0 stands for) may end here
  bool dead() const { return items.empty() && !ended; }
};

constexpr uint32_t kMostDepth = 256;  // of calls; deeper ones are not taken
constexpr size_t kMostPlaces = 4096;

Places start_of(const Grammar& grammar, Stacks& stacks);
// Behind a byte.
Places behind(const Grammar& grammar, Stacks& stacks, const Places& places, uint8_t byte);
// The byte is read from one place alone.
Places behind(const Grammar& grammar, Stacks& stacks, Place place, uint8_t byte);
// Where the text is after the call ends that `stack` returns from.
Places returned(const Grammar& grammar, Stacks& stacks, uint32_t stack);

}  // namespace transom::constraint
