// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/monitor/series.h"

#include <cmath>

namespace transom::dashboard {

void Series::add(int64_t step, double value, uint64_t number) {
  if (!std::isfinite(value)) return;
  if (!points_.empty() && points_.back().step == step) {
    points_.back() = {step, value, number};
    return;
  }
  // The newest value is always shown; it makes way for the next one unless its turn has come.
  if (last_is_extra_) points_.pop_back();
  last_is_extra_ = seen_++ % stride_ != 0;
  points_.push_back({step, value, number});
  if (points_.size() < most_) return;
  size_t kept = 0;
  for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
  stride_ *= 2;
  last_is_extra_ = false;
}

}  // namespace transom::dashboard
