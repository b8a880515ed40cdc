// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/metrics/request_metrics.h"

#include <fmt/format.h>

namespace transom::serve {

void count_request(Metrics& metrics, const std::string& handler, const std::string& method, int status) {
  metrics
      .counter("http_requests_total", "Requests by handler, method and status.",
               {{"code", std::to_string(status)},
                {"handler", handler},
                {"method", method},
                {"status", fmt::format("{}xx", status / 100)}})
      .add();
}

void observe_request_duration(Metrics& metrics, const std::string& handler, const std::string& method, double seconds) {
  static const std::vector<double> kSeconds = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120};
  metrics
      .histogram("http_request_duration_seconds", "Duration of requests by handler and method in seconds.", kSeconds,
                 {{"handler", handler}, {"method", method}})
      .observe(seconds);
}

}  // namespace transom::serve
