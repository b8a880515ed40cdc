// SPDX-License-Identifier: Apache-2.0
// Sets of places above a stack that is not known, and what leads from one to another, found once and kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "work/generation/constraint/tokens/automaton.h"
#include "work/generation/constraint/tokens/place_classes.h"

namespace transom::constraint {

// Not for several threads at once.
class RelativeSets {
 public:
  // Of texts of at most as many bytes as the last level of the classes tells apart.
  RelativeSets(const Grammar& grammar, const PlaceClasses& classes)
      : grammar_(grammar), classes_(classes), stacks_(classes.bytes_of(classes.last())), sets_(1) {
    known_[0][{}] = 0;
    sets_[0].folded.fill(0);
  }

  using OfBytes = std::array<int32_t, 256>;
  // The sets behind each byte that is read from a node. Sets have numbers; 0 is the dead one.
  OfBytes behind_node(uint32_t node, uint32_t count);
  // The set behind a byte that is read from a set.
  int32_t behind_set(int32_t set, uint8_t byte) {
    const auto at = static_cast<size_t>(set);
    if (set == 0) return 0;
    if (sets_[at].behind && (*sets_[at].behind)[byte] >= 0) return (*sets_[at].behind)[byte];
    return find_behind(at, byte);
  }
  // Whether texts of at most so many bytes do the same from both.
  bool are_alike(int32_t a, int32_t b, uint32_t bytes);
  const Places& operator[](int32_t set) const { return sets_[static_cast<size_t>(set)].places; }
  size_t size() const { return sets_.size(); }
  size_t bytes() const { return bytes_ + kBytesOfAStack * stacks_.size(); }  // about

 public:
  static constexpr size_t kBytesOfAStack = 64;
  struct Set {
    Places places;
    std::unique_ptr<OfBytes> behind;                    // -1: not found yet
    std::array<int32_t, PlaceClasses::kLevels> folded;  // what stands for it; -1: not found yet
  };
  int32_t number_of(Places places);
  int32_t kept_as(Places places);
  int32_t find_behind(size_t set, uint8_t byte);
  std::pair<size_t, size_t> told_from_none(std::span<const Place> places, uint8_t byte) const;
  int32_t folded(int32_t set, size_t level);
  // `opens`: counts without a limit in reach are none. Such places are compared only, not read from.
  Place folded_place(Place place, size_t level, bool opens);

  const Grammar& grammar_;
  const PlaceClasses& classes_;
  Stacks stacks_;
  std::vector<Set> sets_;
  std::map<std::vector<Place>, int32_t> known_[2];  // by whether they have ended
  std::unordered_map<uint64_t, int32_t> folded_;    // by the set and how many bytes may come
  size_t bytes_ = 0;
};

}  // namespace transom::constraint
