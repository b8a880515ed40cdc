// SPDX-License-Identifier: Apache-2.0
// Places of a grammar that no token tells apart, or no short one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// For each node one that stands for it: from both the same texts of at most so many bytes can be read, and end. In a
// list of at most 2,000 items that are most places alike.
class PlaceClasses {
 public:
  PlaceClasses(const Grammar& grammar, uint32_t longest_token);
  // The level that tells texts of so many bytes apart, and how many bytes it tells apart; the last one is for all
  // tokens.
  size_t level_of(uint32_t bytes) const;
  uint32_t bytes_of(size_t level) const {
    return level < kBytes.size() && kBytes[level] < longest_ ? kBytes[level] : longest_;
  }
  size_t last() const { return stands_.size() - 1; }
  uint32_t of(uint32_t node, size_t level) const { return stands_[level][node]; }
  // The same where no rule has a limit to what it counts.
  uint32_t of_open(uint32_t node, size_t level) const { return open_.empty() ? of(node, level) : open_[level][node]; }
  const std::vector<uint32_t>& of_tokens() const { return stands_.back(); }

  static constexpr size_t kLevels = 6;

 private:
  static constexpr std::array<uint32_t, kLevels - 1> kBytes{2, 4, 8, 16, 32};
  uint32_t longest_;
  std::vector<std::vector<uint32_t>> levels_of(const Grammar& grammar, bool with_counters) const;
  std::vector<std::vector<uint32_t>> stands_, open_;  // by level
};

}  // namespace transom::constraint
