// SPDX-License-Identifier: Apache-2.0
// What the page is sent, as JSON. Points are pairs [step, value].
#pragma once

#include <string>
#include <vector>

#include "apps/dashboard/monitor/run_monitor.h"
#include "apps/dashboard/web/saved_runs.h"

namespace transom::dashboard {

// {"status": {...}, "series": {name: [[step, value], ...]}, "messages": [{"text", "warning"}], "kernels": {...} or
// null,
//  "number"}: all of a view, or what is new in it.
std::string view_message(const RunView& view);
// [{"id", "name", "directory"}]: the id counts from 0.
std::string runs_message(const std::vector<SavedRun>& runs);
// {"series": ...} of one of them.
std::string series_message(const std::vector<Series>& series);

}  // namespace transom::dashboard
