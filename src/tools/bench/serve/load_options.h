// SPDX-License-Identifier: Apache-2.0
// What a load test of a server sends, and when. Names and defaults are those of vLLM's `vllm bench serve`.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

// How a server is asked.
enum class LoadApi { kCompletions, kChat, kEmbeddings };

// A fixed length, or any from `least` to `most` with the same probability.
struct LengthRange {
  int64_t least = 0, most = 0;
};
// Reads "128" or "64:256"; `where` names the flag in errors.
LengthRange parse_length_range(const std::string& text, const std::string& where);

struct LoadTestOptions {
  LoadApi api = LoadApi::kCompletions;
  std::string model;     // as the server calls it
  std::string endpoint;  // the path behind the URL: "/v1/completions"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string extra_body;  // a JSON object whose fields every request has; empty: none
  double request_rate = std::numeric_limits<double>::infinity();  // requests a second; infinite: all at once
  double burstiness = 1;        // shape of the gamma distribution of the gaps; 1: a Poisson process
  int64_t max_concurrency = 0;  // requests at once; 0: as many as arrive
  int64_t num_warmups = 0;      // requests that are not measured
  bool ignore_eos = false;      // the answer has the whole length that is asked for
  uint64_t seed = 0;
};

// One request of the load.
struct LoadRequest {
  std::string prompt;  // text, or with `messages` a JSON list of chat messages
  bool messages = false;
  int64_t prompt_tokens = 0;  // as the local tokenizer counts; 0: not known
  int64_t output_tokens = 0;  // asked for
};

}  // namespace transom
