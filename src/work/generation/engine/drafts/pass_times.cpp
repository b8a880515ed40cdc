// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/drafts/pass_times.h"

#include <algorithm>

namespace transom {
namespace {

constexpr double kShare = 1.0 / 4, kShareOfLong = 1.0 / 16;
constexpr double kLongest = 4;  // times what is known

}  // namespace

void PassTimes::note(int64_t tokens, double seconds) {
  const auto [at, is_new] = times_.try_emplace(tokens);
  double& known = at->second.seconds;
  if (is_new) return;
  if (known <= 0) known = std::max(seconds, 1e-9);
  else if (seconds < known) known += (seconds - known) * kShare;
  else known += (std::min(seconds, kLongest * known) - known) * kShareOfLong;
}

bool PassTimes::knows(int64_t tokens) const {
  bool below = false, above = false;
  for (const auto& time : times_) {
    if (time.second.seconds <= 0) continue;
    below = below || time.first <= tokens, above = above || time.first >= tokens;
  }
  return below && above;
}

double PassTimes::of(int64_t tokens) const {
  const std::pair<const int64_t, Time>*below = nullptr, *above = nullptr;
  for (const auto& time : times_) {
    if (time.second.seconds <= 0) continue;
    if (time.first <= tokens) below = &time;
    else if (!above) above = &time;
  }
  if (!below) return above ? above->second.seconds : 1;
  if (!above || below->first == tokens) return below->second.seconds;
  const double share = static_cast<double>(tokens - below->first) / static_cast<double>(above->first - below->first);
  return below->second.seconds + share * (above->second.seconds - below->second.seconds);
}

double PassTimes::of_one_more() const {
  const std::pair<const int64_t, Time>*first = nullptr, *last = nullptr;
  for (const auto& time : times_) {
    if (time.second.seconds <= 0) continue;
    if (!first) first = &time;
    last = &time;
  }
  if (!first || first == last) return 0;
  return std::max(0.0,
                  (last->second.seconds - first->second.seconds) / static_cast<double>(last->first - first->first));
}

}  // namespace transom
