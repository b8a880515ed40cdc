// SPDX-License-Identifier: Apache-2.0
// A load test as a table, as JSON under the names of `vllm bench serve`, and as a page with pictures.
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "tools/bench/serve/load_metrics.h"

namespace transom {

struct LoadTestReport {
  LoadTestOptions options;
  std::string url, date;
  int64_t num_prompts = 0;
  ServiceLevel level;
  bool detailed = false;  // JSON also holds each request
  LoadResult result;
  LoadMetrics metrics;
};

std::string load_table(const LoadTestReport& report);
Json load_json(const LoadTestReport& report);
std::string load_page(const LoadTestReport& report);

}  // namespace transom
