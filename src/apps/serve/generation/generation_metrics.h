// SPDX-License-Identifier: Apache-2.0
// What is measured of generation, under the names that vLLM's dashboards use.
#pragma once

#include <string>

#include "apps/serve/metrics/metrics.h"

namespace transom::serve {

struct GenerationMetrics {
  GenerationMetrics(Metrics& metrics, const std::string& model);
  Counter& finished(const std::string& reason);

  Metrics& metrics;
  Labels labels;
  Counter &prompt_tokens, &generation_tokens, &prompt_tokens_cached, &computed_prompt_tokens, &found_prompt_tokens;
  Histogram &time_to_first_token, &inter_token_latency, &e2e_request_latency, &request_queue_time,
      &request_inference_time, &request_prefill_time, &request_decode_time, &request_time_per_output_token,
      &request_prompt_tokens, &request_generation_tokens, &request_max_generation_tokens, &request_computed_tokens,
      &request_max_tokens, &request_n;
};

// Tokens that each step of the engine reads and writes.
Histogram& iteration_tokens(Metrics& metrics, const std::string& model);

}  // namespace transom::serve
