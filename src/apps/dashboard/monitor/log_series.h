// SPDX-License-Identifier: Apache-2.0
// Which numbers of a log are curves.
#pragma once

#include <string_view>
#include <vector>

#include "apps/dashboard/monitor/series.h"
#include "transom/trainer_state.h"

namespace transom::dashboard {

// Not of times and rates, of the totals at the end of a run, and of what says where in the run the record stands.
bool is_curve(std::string_view name);

// The curves of a log history, at most 64.
std::vector<Series> series_of_log(const std::vector<LogRecord>& log);

}  // namespace transom::dashboard
