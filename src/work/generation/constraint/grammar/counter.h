// SPDX-License-Identifier: Apache-2.0
// How often a rule's counting edges may be read, without a copy of the rule for each time: a place carries the count,
// and the counter knows from which places the rest can still come out within its limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace transom::constraint {

class Counter {
 public:
  static constexpr int64_t kMost = 1'000'000'000;  // no answer is that long
  struct Step {
    uint32_t from, to;  // numbers of places
    bool counts;
  };

  // What all counters of a grammar may take.
  struct Budget {
    size_t steps = 60'000'000, words = 1 << 20;
  };

  // Of a rule with so many places, which may end at `ends` where the count is from `least` to `most` (below 0, or above
  // kMost: no limit). Throws Error where that is more than the budget has.
  Counter(int64_t least, int64_t most, size_t places, const std::vector<Step>& steps, const std::vector<bool>& ends,
          Budget& budget);

  // Whether from this place, behind so many counting edges, an end can be reached.
  bool allows(uint32_t place, uint32_t count) const;
  bool may_end(uint32_t count) const { return count >= least_ && (unlimited_ || count <= most_); }
  // Behind one more. Without a limit counts stay where they are enough.
  uint32_t next(uint32_t count) const { return unlimited_ && count >= least_ ? least_ : count + 1; }
  // A count that stands for this one: no text of at most so many bytes, of which each counting edge reads at least one,
  // tells them apart.
  uint32_t folded(uint32_t count, uint32_t bytes) const;
  // Whether no text of at most so many bytes tells the count from no limits at all.
  bool is_open(uint32_t count, uint32_t bytes) const {
    return opens_ && count >= least_ && (unlimited_ || most_ - count > upper_.settled() + bytes);
  }

 private:
  using Set = std::vector<uint64_t>;  // of places, a bit each
  // The sets of falling counts: those from `start` on come again and again.
  struct Levels {
    std::vector<Set> sets;
    size_t start = 0, period = 1;
    bool repeats = false;
    const Set& at(size_t i) const { return sets[i < sets.size() ? i : start + (i - start) % period]; }
    // From how many levels on it only repeats itself.
    size_t settled() const { return repeats ? start + period : sets.size(); }
  };
  class Search;
  uint32_t least_, most_ = 0;
  bool unlimited_, opens_;  // from all places an end can be reached where enough are left
  Levels upper_, lower_;    // from `most` down to `least`, and from there down
};

}  // namespace transom::constraint
