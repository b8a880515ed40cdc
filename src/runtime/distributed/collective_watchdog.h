// SPDX-License-Identifier: Apache-2.0
// Finds who others wait for in a collective, shortly before they give up: rank 0 knows how far each rank has come.
#pragma once

#include <functional>

#include "runtime/distributed/collective_wait.h"

namespace transom {

struct LateRank {
  int64_t rank = -1;  // below 0: all have come
  std::string text;
};

class CollectiveWatchdog {
 public:
  // `patience`: seconds that a rank may wait in a collective.
  CollectiveWatchdog(int64_t ranks, double patience);

  void take(int64_t rank, RankProgress progress) { ranks_[static_cast<size_t>(rank)] = std::move(progress); }
  // Who is late where somebody has waited for too long. Of ranks that wait for each other the one that none of the
  // others can wait for.
  std::optional<LateRank> find() const;

 private:
  struct Wait {
    int64_t rank = 0;
    std::string group;
    CollectiveProgress progress;
  };
  std::vector<Wait> too_long() const;  // the longest first
  std::vector<int64_t> members(const Wait& wait) const;
  std::vector<int64_t> late_ranks(const Wait& wait) const;
  LateRank late_rank(const Wait& wait, const std::vector<int64_t>& late) const;
  std::optional<Wait> wait_of(int64_t rank) const;
  const CollectiveProgress* progress(int64_t rank, const std::string& group) const;

  std::vector<RankProgress> ranks_;
  double patience_;
};

}  // namespace transom
