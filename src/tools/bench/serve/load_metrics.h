// SPDX-License-Identifier: Apache-2.0
// What a load test has shown, by the definitions of vLLM's `vllm bench serve`:
//   TTFT   time to first token: from sending to the first piece of text
//   TPOT   time per output token: (latency - TTFT) / (tokens - 1), one number a request of more than one token
//   ITL    inter-token latency: each gap between two pieces of text
//   E2EL   end-to-end latency: from sending to the last piece of text
// Percentiles are interpolated as numpy does, deviations are those of the whole population. Requests that failed count
// in `failed` alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/bench/serve/load_run.h"

namespace transom {

struct LatencyFigures {
  double mean = 0, median = 0, deviation = 0;          // milliseconds
  std::vector<std::pair<double, double>> percentiles;  // (99, ms), as asked for
};

// A service level: "ttft", "tpot", "e2el" and the milliseconds that a request may take.
using ServiceLevel = std::map<std::string, double>;
// Reads words such as "ttft:200"; `where` names the flag in errors.
ServiceLevel parse_service_level(const std::vector<std::string>& words, const std::string& where);

struct LoadMetrics {
  int64_t completed = 0, failed = 0, good = 0;  // `good`: within the service level
  int64_t input_tokens = 0, output_tokens = 0;
  double duration = 0;                                                                                    // seconds
  double request_throughput = 0, request_goodput = 0, output_throughput = 0, total_token_throughput = 0;  // a second
  double most_output_tokens_per_second = 0;  // in the best second of the run, pieces of text counted
  int64_t most_concurrent = 0;               // requests at once that were answered
  LatencyFigures ttft, tpot, itl, e2el, queued;
  std::vector<double> ttfts, tpots, itls, e2els;            // seconds, of the requests that completed
  std::vector<double> tokens_by_second, running_by_second;  // pieces of text, and requests that ran
};

LoadMetrics load_metrics(const LoadResult& result, const std::vector<double>& percentiles, const ServiceLevel& level);
// Of values in any order; 0 without any. `percent` from 0 to 100.
double percentile(std::vector<double> values, double percent);

}  // namespace transom
