// SPDX-License-Identifier: Apache-2.0
// A grammar read byte by byte: the set of places where the text may be, each with the places that calls return to.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// Stacks of return places, equal ones shared. Stack 0 is empty.
class Stacks {
 public:
  Stacks() : entries_{{0, 0, 0}} {}
  uint32_t push(uint32_t stack, uint32_t node);
  uint32_t top(uint32_t stack) const { return entries_[stack].node; }
  uint32_t below(uint32_t stack) const { return entries_[stack].below; }
  uint32_t depth(uint32_t stack) const { return entries_[stack].depth; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t node, below, depth;
  };
  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, uint32_t> known_;
};

struct Place {
  uint32_t node, stack;
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
