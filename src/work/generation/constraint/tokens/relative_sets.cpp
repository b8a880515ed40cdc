// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/relative_sets.h"

#include <algorithm>

namespace transom::constraint {

// Places that are alike for all tokens are one here: rules that read the same texts share their sets.
int32_t RelativeSets::number_of(Places places) {
  for (Place& place : places.items) place = folded_place(place, classes_.last(), false);
  return kept_as(std::move(places));
}

int32_t RelativeSets::kept_as(Places places) {
  std::sort(places.items.begin(), places.items.end());
  places.items.erase(std::unique(places.items.begin(), places.items.end()), places.items.end());
  auto& known = known_[places.ended ? 1 : 0];
  const auto found = known.find(places.items);
  if (found != known.end()) return found->second;
  const auto number = static_cast<int32_t>(sets_.size());
  known[places.items] = number;
  bytes_ += sizeof(Set) + 64 + 2 * places.items.size() * sizeof(Place);
  sets_.push_back({std::move(places), nullptr, {}});
  sets_.back().folded.fill(-1);
  return number;
}

// The bytes around this one that no edge tells from it: [first, last].
std::pair<size_t, size_t> RelativeSets::told_from_none(std::span<const Place> places, uint8_t byte) const {
  int first = 0, last = 255;
  for (const Place& place : places)
    for (const Grammar::ByteEdge& edge : grammar_.nodes[place.node].bytes) {
      if (edge.low > byte) last = std::min(last, edge.low - 1);
      else first = std::max<int>(first, edge.low);
      if (edge.high < byte) first = std::max(first, edge.high + 1);
      else last = std::min<int>(last, edge.high);
    }
  return {static_cast<size_t>(first), static_cast<size_t>(std::max<int>(last, byte))};
}

RelativeSets::OfBytes RelativeSets::behind_node(uint32_t node, uint32_t count) {
  OfBytes result;
  const Place place{node, 0, count};
  for (size_t byte = 0; byte < result.size();) {
    const auto at = static_cast<uint8_t>(byte);
    const size_t last = told_from_none({&place, 1}, at).second;
    const int32_t set = number_of(behind(grammar_, stacks_, place, at));
    std::fill(result.begin() + static_cast<ptrdiff_t>(byte), result.begin() + static_cast<ptrdiff_t>(last) + 1, set);
    byte = last + 1;
  }
  return result;
}

int32_t RelativeSets::find_behind(size_t set, uint8_t byte) {
  if (!sets_[set].behind) {
    sets_[set].behind = std::make_unique<OfBytes>();
    sets_[set].behind->fill(-1);
    bytes_ += sizeof(OfBytes);
  }
  const auto [first, last] = told_from_none(sets_[set].places.items, byte);
  const int32_t next = number_of(behind(grammar_, stacks_, sets_[set].places, byte));
  OfBytes& behind = *sets_[set].behind;
  std::fill(behind.begin() + static_cast<ptrdiff_t>(first), behind.begin() + static_cast<ptrdiff_t>(last) + 1, next);
  return next;
}

Place RelativeSets::folded_place(Place place, size_t level, bool opens) {
  constexpr uint32_t kOpen = UINT32_MAX;  // no count: larger than Counter::kMost
  const uint32_t bytes = classes_.bytes_of(level);
  if (place.stack != 0) {
    const Place top{stacks_.top(place.stack), stacks_.below(place.stack), stacks_.count(place.stack)};
    const Place folded = folded_place(top, level, opens);
    if (folded != top) place.stack = stacks_.push(folded.stack, folded.node, folded.count);
  }
  const Counter* counter = grammar_.counter_of(place.node);
  if (opens && (!counter || counter->is_open(place.count, bytes)))
    return {classes_.of_open(place.node, level), place.stack, kOpen};
  return {classes_.of(place.node, level), place.stack, counter ? counter->folded(place.count, bytes) : 0};
}

int32_t RelativeSets::folded(int32_t set, size_t level) {
  const auto at = static_cast<size_t>(set);
  if (sets_[at].folded[level] >= 0) return sets_[at].folded[level];
  Places places = sets_[at].places;
  for (Place& place : places.items) place = folded_place(place, level, true);
  const int32_t number = kept_as(std::move(places));
  return sets_[at].folded[level] = number;
}

bool RelativeSets::are_alike(int32_t a, int32_t b, uint32_t bytes) {
  if (a == b) return true;
  if (bytes == 0) return (*this)[a].dead() == (*this)[b].dead();
  const size_t level = classes_.level_of(bytes);
  return folded(a, level) == folded(b, level);
}

}  // namespace transom::constraint
