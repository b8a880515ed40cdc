// SPDX-License-Identifier: Apache-2.0
// Sets of places above a stack that is not known, and what leads from one to another, found once and kept.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "work/generation/constraint/tokens/automaton.h"

namespace transom::constraint {

// Not for several threads at once.
class RelativeSets {
 public:
  // Of texts of at most so many bytes.
  RelativeSets(const Grammar& grammar, uint32_t bytes) : grammar_(grammar), stacks_(bytes), sets_(1) {
    known_[0][{}] = 0;
  }

  // The set behind a byte that is read from a node, or from a set. Sets have numbers; 0 is the dead one.
  int32_t behind_node(uint32_t node, uint32_t count, uint8_t byte) {
    return number_of(behind(grammar_, stacks_, Place{node, 0, count}, byte));
  }
  int32_t behind_set(int32_t set, uint8_t byte);
  const Places& operator[](int32_t set) const { return sets_[static_cast<size_t>(set)].places; }
  size_t size() const { return sets_.size(); }
  size_t bytes() const { return bytes_ + kBytesOfAStack * stacks_.size(); }  // about

 private:
  static constexpr size_t kBytesOfAStack = 64;
  struct Set {
    Places places;
    std::vector<int32_t> behind;  // by byte; -1: not found yet
  };
  int32_t number_of(Places places);

  const Grammar& grammar_;
  Stacks stacks_;
  std::vector<Set> sets_;
  std::map<std::vector<Place>, int32_t> known_[2];  // by whether they have ended
  size_t bytes_ = 0;
};

}  // namespace transom::constraint
