// SPDX-License-Identifier: Apache-2.0
// The places that an end can be reached from are found for falling counts. Each set follows from the one before alone,
// so that where one comes again all below it repeat.
#include "work/generation/constraint/grammar/counter.h"

#include <algorithm>

#include "base/error.h"

namespace transom::constraint {

class Counter::Search {
 public:
  Search(size_t places, const std::vector<Step>& steps, const std::vector<bool>& ends, Budget& budget)
      : budget_(budget), ends_(ends), into_(places), cost_(steps.size() + places) {
    for (const Step& step : steps) into_[step.to].push_back(step);
  }

  // Of the count below that of `above` (null: there is none). With `loops` a counting edge leads to the same count.
  Set below(const Set* above, bool may_end, bool loops) {
    constexpr size_t kWordsOfASet = 16;  // what it takes besides its bits
    if (budget_.steps < cost_ || budget_.words < words() + kWordsOfASet)
      fail("the lengths and the patterns of its texts are too much together; make the patterns simpler");
    budget_.steps -= cost_, budget_.words -= words() + kWordsOfASet;
    Set set(words());
    std::vector<uint32_t> open;
    const auto reach = [&](uint32_t place) {
      uint64_t& word = set[place / 64];
      const uint64_t bit = uint64_t{1} << (place % 64);
      if (!(word & bit)) word |= bit, open.push_back(place);
    };
    for (uint32_t place = 0; place < into_.size(); ++place) {
      if (may_end && ends_[place]) reach(place);
      if (above && has(*above, place))
        for (const Step& step : into_[place])
          if (step.counts) reach(step.from);
    }
    while (!open.empty()) {
      const uint32_t place = open.back();
      open.pop_back();
      for (const Step& step : into_[place])
        if (!step.counts || loops) reach(step.from);
    }
    return set;
  }

  // `count` levels below `above`, or until they repeat.
  Levels levels(const Set* above, bool may_end, size_t count) {
    Levels result;
    std::map<Set, size_t> known;
    for (size_t i = 0; i < count; ++i) {
      Set set = below(above, may_end, false);
      const auto [found, is_new] = known.emplace(set, i);
      if (!is_new) {
        result.start = found->second, result.period = i - found->second, result.repeats = true;
        return result;
      }
      result.sets.push_back(std::move(set));
      above = &result.sets.back();
    }
    return result;
  }

  static bool has(const Set& set, uint32_t place) { return set[place / 64] >> (place % 64) & 1; }

 private:
  size_t words() const { return (into_.size() + 63) / 64; }
  Budget& budget_;
  const std::vector<bool>& ends_;
  std::vector<std::vector<Step>> into_;
  size_t cost_;
};

Counter::Counter(int64_t least, int64_t most, size_t places, const std::vector<Step>& steps,
                 const std::vector<bool>& ends, Budget& budget)
    : unlimited_(most < 0 || most > kMost) {
  if (least > kMost) fail("a count of at least {} is not supported: at most {}", least, kMost);
  if (least < 0 || (!unlimited_ && most < least)) fail("a count from {} to {} is impossible", least, most);
  least_ = static_cast<uint32_t>(least);
  Search search(places, steps, ends, budget);
  if (unlimited_) {
    upper_.sets.push_back(search.below(nullptr, true, true));
    upper_.repeats = true;
  } else {
    most_ = static_cast<uint32_t>(most);
    upper_ = search.levels(nullptr, true, static_cast<size_t>(most - least + 1));
  }
  const Set& of_least = upper_.at(unlimited_ ? 0 : most_ - least_);
  lower_ = search.levels(&of_least, false, least_);
  opens_ = upper_.repeats && upper_.period == 1;
  for (uint32_t place = 0; place < places && opens_; ++place) opens_ = Search::has(upper_.sets[upper_.start], place);
}

bool Counter::allows(uint32_t place, uint32_t count) const {
  if (count < least_) return Search::has(lower_.at(least_ - 1 - count), place);
  if (unlimited_) return Search::has(upper_.at(0), place);
  return count <= most_ && Search::has(upper_.at(most_ - count), place);
}

uint32_t Counter::folded(uint32_t count, uint32_t bytes) const {
  if (count >= least_) {
    if (unlimited_) return least_;
    if (!upper_.repeats || most_ - count <= upper_.settled() + bytes) return count;
    return least_ + (count - least_) % static_cast<uint32_t>(upper_.period);
  }
  if (!lower_.repeats || least_ - 1 - count <= lower_.settled() + bytes) return count;
  return count % static_cast<uint32_t>(lower_.period);
}

}  // namespace transom::constraint
