// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/models/eviction_plan.h"

#include <algorithm>
#include <tuple>

namespace transom::serve {
namespace {

using Time = std::chrono::steady_clock::time_point;

// It has been loaded for somebody who has not asked again yet.
bool awaits_first_answer(const ModelState& model, Time now) {
  return !model.answered && model.leases == 0 && now < model.loaded + kTimeForFirstAnswer;
}

}  // namespace

EvictionPlan plan_evictions(std::span<const ModelState> models, int64_t budget, Time now) {
  EvictionPlan plan;
  plan.leaving.assign(models.size(), false);
  std::vector<size_t> waiting, present;
  int64_t used = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].in_memory) present.push_back(i), used += models[i].bytes;
    else if (models[i].wanted > 0) waiting.push_back(i);
  }
  std::sort(waiting.begin(), waiting.end(), [&](size_t a, size_t b) { return models[a].wanted < models[b].wanted; });
  // In the order in which they go, the last first. Those that leave already do so before others that are in use.
  const auto rank = [&](size_t i) {
    const ModelState& model = models[i];
    return std::tuple(awaits_first_answer(model, now), model.leases > 0, !model.leaving, model.last_use);
  };
  std::sort(present.begin(), present.end(), [&](size_t a, size_t b) { return rank(a) > rank(b); });
  int64_t planned = used;    // when all that is planned so far has happened
  std::vector<size_t> idle;  // of those that go, the ones that can go now
  for (const size_t next : waiting) {
    size_t kept = present.size();
    int64_t sum = planned + models[next].bytes;
    while (sum > budget && kept > 0) sum -= models[present[--kept]].bytes;
    if (sum > budget && sum > models[next].bytes) continue;  // the room is kept for those who have waited longer
    planned = sum;
    for (; present.size() > kept; present.pop_back()) {
      const ModelState& model = models[present.back()];
      if (awaits_first_answer(model, now)) {
        const Time until = model.loaded + kTimeForFirstAnswer;
        plan.look_again = plan.look_again ? std::min(*plan.look_again, until) : until;
      } else if (model.leases > 0) {
        plan.leaving[present.back()] = true;
      } else {
        idle.push_back(present.back());
      }
    }
    int64_t now_used = used + models[next].bytes;
    size_t gone = 0;
    while (now_used > budget && gone < idle.size()) now_used -= models[idle[gone++]].bytes;
    if (now_used > budget && now_used > models[next].bytes) continue;
    plan.load = next;
    plan.unload.assign(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(gone));
    return plan;
  }
  return plan;
}

}  // namespace transom::serve
