// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/generation/generation_metrics.h"

namespace transom::serve {
namespace {

const std::vector<double> kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                         1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const std::vector<double> kInterToken = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                         .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const std::vector<double> kRequest = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const std::vector<double> kSamples = {1, 2, 5, 10, 20};
const std::vector<double> kStep = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

Labels labels_of(const std::string& model) { return {{"engine", "0"}, {"model_name", model}}; }

Counter& prompt_tokens_of(Metrics& metrics, const std::string& model, const char* source) {
  Labels labels = labels_of(model);
  labels.emplace_back("source", source);
  return metrics.counter("vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.", labels);
}

}  // namespace

GenerationMetrics::GenerationMetrics(Metrics& to, const std::string& model)
    : metrics(to),
      labels(labels_of(model)),
      prompt_tokens(to.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", labels)),
      generation_tokens(to.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", labels)),
      prompt_tokens_cached(to.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens.", labels)),
      computed_prompt_tokens(prompt_tokens_of(to, model, "local_compute")),
      found_prompt_tokens(prompt_tokens_of(to, model, "local_cache_hit")),
      time_to_first_token(to.histogram("vllm:time_to_first_token_seconds",
                                       "Histogram of time to first token in seconds.", kFirstToken, labels)),
      inter_token_latency(to.histogram("vllm:inter_token_latency_seconds",
                                       "Histogram of inter-token latency in seconds.", kInterToken, labels)),
      e2e_request_latency(to.histogram("vllm:e2e_request_latency_seconds",
                                       "Histogram of e2e request latency in seconds.", kRequest, labels)),
      request_queue_time(to.histogram("vllm:request_queue_time_seconds",
                                      "Histogram of time spent in WAITING phase for request.", kRequest, labels)),
      request_inference_time(to.histogram("vllm:request_inference_time_seconds",
                                          "Histogram of time spent in RUNNING phase for request.", kRequest, labels)),
      request_prefill_time(to.histogram("vllm:request_prefill_time_seconds",
                                        "Histogram of time spent in PREFILL phase for request.", kRequest, labels)),
      request_decode_time(to.histogram("vllm:request_decode_time_seconds",
                                       "Histogram of time spent in DECODE phase for request.", kRequest, labels)),
      request_time_per_output_token(to.histogram("vllm:request_time_per_output_token_seconds",
                                                 "Histogram of time per output token of a request in seconds.",
                                                 kInterToken, labels)),
      request_prompt_tokens(
          to.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", kTokens, labels)),
      request_generation_tokens(
          to.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", kTokens, labels)),
      request_max_generation_tokens(to.histogram("vllm:request_max_num_generation_tokens",
                                                 "Histogram of the greatest number of generation tokens of a prompt.",
                                                 kTokens, labels)),
      request_computed_tokens(to.histogram("vllm:request_prefill_kv_computed_tokens",
                                           "Histogram of new KV tokens computed during prefill.", kTokens, labels)),
      request_max_tokens(to.histogram("vllm:request_params_max_tokens",
                                      "Histogram of the max_tokens request parameter.", kTokens, labels)),
      request_n(to.histogram("vllm:request_params_n", "Histogram of the n request parameter.", kSamples, labels)) {}

Histogram& iteration_tokens(Metrics& metrics, const std::string& model) {
  return metrics.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", kStep,
                           labels_of(model));
}

Counter& GenerationMetrics::finished(const std::string& reason) {
  Labels all = labels;
  all.emplace_back("finished_reason", reason);
  return metrics.counter("vllm:request_success_total", "Count of processed requests.", all);
}

}  // namespace transom::serve
