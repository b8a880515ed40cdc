// SPDX-License-Identifier: Apache-2.0
// What is measured of a request to an encoder, under the names that text-embeddings-inference's dashboards use.
#pragma once

#include <string>

#include "apps/serve/http/message.h"
#include "apps/serve/metrics/metrics.h"

namespace transom::serve {

class EncoderMetrics {
 public:
  enum class Kind { kEmbed, kPredict };
  // Counts a request of so many inputs, whose bytes were there at `whole_at`, and which is in the queue now.
  EncoderMetrics(Metrics& metrics, const std::string& model, Kind kind, size_t inputs, Clock::time_point whole_at);
  void has_input(int64_t tokens);            // 0 or less: it is no text
  void begun(double queue_seconds);          // the first of its inputs is computed
  void batch(int64_t rows, int64_t tokens);  // a batch is computed that begins with one of its inputs
  void computed();
  void failed(int status);

 private:
  Metrics& metrics_;
  std::string of_inputs_;  // what their counters begin with
  Labels labels_, with_method_;
  Clock::time_point whole_at_, queued_at_ = Clock::now(), begun_at_ = queued_at_;
  size_t inputs_;
};

}  // namespace transom::serve
