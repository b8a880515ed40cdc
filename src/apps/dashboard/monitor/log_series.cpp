// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/monitor/log_series.h"

#include <algorithm>
#include <cmath>

namespace transom::dashboard {

bool is_curve(std::string_view name) {
  for (const std::string_view other : {"step", "epoch", "total_flos", "train_loss"})
    if (name == other) return false;
  return !name.ends_with("_runtime") && !name.ends_with("_per_second") && !name.ends_with("_time");
}

std::vector<Series> series_of_log(const std::vector<LogRecord>& log) {
  constexpr size_t kMostSeries = 64;
  std::vector<Series> all;
  uint64_t number = 0;
  for (const LogRecord& record : log) {
    const auto step = find_number(record, "step");
    if (!step || std::abs(*step) > 1e15) continue;
    for (const auto& [name, value] : record) {
      const auto one = find_number(record, name);
      if (!one || !is_curve(name)) continue;
      auto found =
          std::find_if(all.begin(), all.end(), [&, &name = name](const Series& s) { return s.name() == name; });
      if (found == all.end()) {
        if (all.size() >= kMostSeries) continue;
        all.emplace_back(name);
        found = all.end() - 1;
      }
      found->add(static_cast<int64_t>(*step), *one, ++number);
    }
  }
  return all;
}

}  // namespace transom::dashboard
