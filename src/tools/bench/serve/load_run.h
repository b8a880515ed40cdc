// SPDX-License-Identifier: Apache-2.0
// Sends the requests of a load test and notes when what comes back.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/serve/load_options.h"
#include "tools/client/http_client.h"

namespace transom {

// What became of one request; times in seconds.
struct LoadOutcome {
  bool success = false;
  std::string error;         // why not
  std::string text;          // what was written
  double start = 0;          // since the start of the load, when it was sent
  double queued = 0;         // from its arrival until it was sent: it waited for max_concurrency
  double first_token = 0;    // from sending to the first piece of text
  double latency = 0;        // from sending to the last piece of text; of embeddings, to the whole answer
  std::vector<double> gaps;  // between the pieces behind the first
  int64_t prompt_tokens = 0, output_tokens = 0;  // of the answer's usage, else counted by hand
};

struct LoadResult {
  std::vector<LoadOutcome> outcomes;  // in the order of the requests
  double duration = 0;                // seconds from the first arrival to the last answer
};

// Open loop: requests arrive at `times` (seconds) whatever the server does; with max_concurrency those that are too
// many wait here. `done` hears how many have ended. Throws only if the load cannot begin.
LoadResult run_load(const client::HttpUrl& server, const client::ClientOptions& connection,
                    const LoadTestOptions& options, std::span<const LoadRequest> requests,
                    std::span<const double> times, const std::function<void(size_t done)>& done = {});

// The body of a request as it is sent.
std::string load_body(const LoadTestOptions& options, const LoadRequest& request);

}  // namespace transom
