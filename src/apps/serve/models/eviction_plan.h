// SPDX-License-Identifier: Apache-2.0
// Which model is loaded next within a budget of memory, and which ones go for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace transom::serve {

// So long a model that was loaded stays for its first answer.
inline constexpr std::chrono::seconds kTimeForFirstAnswer{3};

struct ModelState {
  int64_t bytes = 0;  // that it is counted with
  bool in_memory = false;
  int64_t leases = 0;                              // answers in work
  bool answered = false;                           // since it was loaded
  std::chrono::steady_clock::time_point loaded{};  // when
  uint64_t last_use = 0;                           // times of requests; greater ones are later
  uint64_t wanted = 0;                             // since that time somebody waits for it; 0: nobody
  bool leaving = false;                            // it takes no new requests
};

struct EvictionPlan {
  std::optional<size_t> load;  // this one can be loaded, when those of `unload` have gone
  std::vector<size_t> unload;  // nobody uses them
  std::vector<bool> leaving;   // of each model: it goes when its answers have ended
  std::optional<std::chrono::steady_clock::time_point> look_again;  // at the latest, also without news
};

// Who waits longest comes first; others are loaded before it only with room that it will not need. Of the models in
// memory those go first that nobody uses, then those that were used least recently. One that was loaded goes when it
// has answered, or has not been asked for kTimeForFirstAnswer. A model that is larger than the budget is loaded alone.
EvictionPlan plan_evictions(std::span<const ModelState> models, int64_t budget,
                            std::chrono::steady_clock::time_point now);

}  // namespace transom::serve
