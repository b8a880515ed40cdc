// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/collective_watchdog.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "runtime/device/flight_recorder.h"

namespace transom {

CollectiveWatchdog::CollectiveWatchdog(int64_t ranks, double patience)
    : ranks_(static_cast<size_t>(ranks)), patience_(patience) {}

const CollectiveProgress* CollectiveWatchdog::progress(int64_t rank, const std::string& group) const {
  const RankProgress& all = ranks_[static_cast<size_t>(rank)];
  const auto found = all.find(group);
  return found == all.end() ? nullptr : &found->second;
}

// What the rank has waited for longest.
std::optional<CollectiveWatchdog::Wait> CollectiveWatchdog::wait_of(int64_t rank) const {
  std::optional<Wait> longest;
  for (const auto& [group, progress] : ranks_[static_cast<size_t>(rank)])
    if (progress.waits_in > 0 && (!longest || progress.waited > longest->progress.waited))
      longest = {rank, group, progress};
  return longest;
}

std::vector<CollectiveWatchdog::Wait> CollectiveWatchdog::too_long() const {
  std::vector<Wait> all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    for (const auto& [group, progress] : ranks_[rank])
      if (progress.waits_in > 0 && progress.waited > patience_)
        all.push_back({static_cast<int64_t>(rank), group, progress});
  std::stable_sort(all.begin(), all.end(),
                   [](const Wait& a, const Wait& b) { return a.progress.waited > b.progress.waited; });
  return all;
}

// Ranks that have not begun all that the one that waits has begun.
std::vector<int64_t> CollectiveWatchdog::late_ranks(const Wait& wait) const {
  std::vector<int64_t> late;
  for (const int64_t rank : members(wait)) {
    const CollectiveProgress* other = progress(rank, wait.group);
    if (!other || other->started < wait.progress.started) late.push_back(rank);
  }
  return late;
}

std::vector<int64_t> CollectiveWatchdog::members(const Wait& wait) const {
  return ranks_of_text(wait.group, static_cast<int64_t>(ranks_.size())).value_or(std::vector<int64_t>());
}

LateRank CollectiveWatchdog::late_rank(const Wait& wait, const std::vector<int64_t>& late) const {
  const CollectiveProgress* last = progress(late[0], wait.group);
  const uint64_t number = last ? last->started + 1 : 1;
  const std::string what = number == wait.progress.waits_in ? fmt::format(" ({})", wait.progress.what) : "";
  LateRank found{late[0], fmt::format("it has not come to collective {} of {}{}, where rank {} has waited for {:.3g} "
                                      "seconds; its last one was {}",
                                      number, name_of_group(wait.group), what, wait.rank, wait.progress.waited,
                                      number > 1 ? std::to_string(number - 1) : "none")};
  if (late.size() > 1) found.text += fmt::format(" ({} other ranks are late, too)", late.size() - 1);
  return found;
}

std::optional<LateRank> CollectiveWatchdog::find() const {
  const std::vector<Wait> waits = too_long();
  for (const Wait& first : waits) {
    std::optional<Wait> wait = first;
    std::optional<LateRank> found;
    for (std::set<int64_t> seen; wait && seen.insert(wait->rank).second;) {
      const std::vector<int64_t> late = late_ranks(*wait);
      if (late.empty()) break;
      found = late_rank(*wait, late);
      wait = wait_of(late[0]);  // which may itself wait for another
    }
    if (found) return found;
  }
  for (const Wait& wait : waits) {
    bool all_wait = true;
    const uint64_t number = wait.progress.waits_in;
    for (const int64_t rank : members(wait)) {
      const CollectiveProgress* other = progress(rank, wait.group);
      all_wait &= other && other->waits_in == number;
      if (other && other->waits_in == number && other->what != wait.progress.what)
        return LateRank{rank,
                        fmt::format("it came to collective {} of {} with {}, where rank {} has {}: the ranks "
                                    "compute different programs",
                                    number, name_of_group(wait.group), other->what, wait.rank, wait.progress.what)};
    }
    if (all_wait && wait.group != kHostGroup)
      return LateRank{-1, fmt::format("collective {} of {} ({}) has not ended for {:.3g} seconds, although all of its "
                                      "ranks came to it: the network between them may be down",
                                      number, name_of_group(wait.group), wait.progress.what, wait.progress.waited)};
  }
  return std::nullopt;
}

}  // namespace transom
