// SPDX-License-Identifier: Apache-2.0
// What is counted of every request, under the names and labels of vLLM's dashboards.
#pragma once

#include <string>

#include "apps/serve/metrics/metrics.h"

namespace transom::serve {

// `status` becomes its class ("5xx"), which dashboards ask for, and `code`, which is exact.
void count_request(Metrics& metrics, const std::string& handler, const std::string& method, int status);
void observe_request_duration(Metrics& metrics, const std::string& handler, const std::string& method, double seconds);

}  // namespace transom::serve
