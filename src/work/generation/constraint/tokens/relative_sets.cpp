// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/relative_sets.h"

namespace transom::constraint {

int32_t RelativeSets::number_of(Places places) {
  auto& known = known_[places.ended ? 1 : 0];
  const auto found = known.find(places.items);
  if (found != known.end()) return found->second;
  const auto number = static_cast<int32_t>(sets_.size());
  known[places.items] = number;
  bytes_ += sizeof(Set) + 64 + 2 * places.items.size() * sizeof(Place);
  sets_.push_back({std::move(places), {}});
  return number;
}

int32_t RelativeSets::behind_set(int32_t set, uint8_t byte) {
  if (set == 0) return 0;
  const auto at = static_cast<size_t>(set);
  if (sets_[at].behind.empty()) {
    sets_[at].behind.assign(256, -1);
    bytes_ += 256 * sizeof(int32_t);
  }
  if (sets_[at].behind[byte] >= 0) return sets_[at].behind[byte];
  const int32_t next = number_of(behind(grammar_, stacks_, sets_[at].places, byte));
  sets_[at].behind[byte] = next;
  return next;
}

}  // namespace transom::constraint
