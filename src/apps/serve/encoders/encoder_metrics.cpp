// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/encoders/encoder_metrics.h"

namespace transom::serve {
namespace {

const std::vector<double> kSeconds = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30};
const std::vector<double> kRows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
const std::vector<double> kTokens = {1,   2,    4,    8,    16,   32,    64,    128,  256,
                                     512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

const char* reason_of(int status) {
  if (status == 429) return "overloaded";
  if (status == 503) return "unhealthy";
  return status >= 500 ? "backend" : "validation";
}

}  // namespace

EncoderMetrics::EncoderMetrics(Metrics& metrics, const std::string& model, Kind kind, size_t inputs,
                               Clock::time_point whole_at)
    : metrics_(metrics),
      of_inputs_(kind == Kind::kEmbed ? "te_embed" : "te_predict"),
      labels_{{"model_name", model}},
      with_method_{{"method", inputs == 1 ? "single" : "batch"}, {"model_name", model}},
      whole_at_(whole_at),
      inputs_(inputs) {
  metrics_.counter("te_request_count", "Requests to encoders.", with_method_).add();
  metrics_.counter(of_inputs_ + "_count", "Inputs of requests to encoders.", labels_).add(static_cast<double>(inputs));
  metrics_.histogram("te_request_tokenization_duration", "Seconds to read and tokenise a request.", kSeconds, labels_)
      .observe(seconds_between(whole_at_, queued_at_));
}

void EncoderMetrics::has_input(int64_t tokens) {
  if (tokens > 0)
    metrics_.histogram("te_request_input_length", "Tokens of an input.", kTokens, labels_)
        .observe(static_cast<double>(tokens));
}

void EncoderMetrics::begun(double queue_seconds) {
  begun_at_ = Clock::now();
  metrics_.histogram("te_request_queue_duration", "Seconds of a request in the queue.", kSeconds, labels_)
      .observe(queue_seconds);
}

void EncoderMetrics::batch(int64_t rows, int64_t tokens) {
  metrics_.histogram("te_batch_next_size", "Inputs of a batch.", kRows, labels_).observe(static_cast<double>(rows));
  metrics_.histogram("te_batch_next_tokens", "Tokens of a batch.", kTokens, labels_)
      .observe(static_cast<double>(tokens));
}

void EncoderMetrics::computed() {
  const auto now = Clock::now();
  metrics_.counter("te_request_success", "Requests that encoders have answered.", with_method_).add();
  metrics_.counter(of_inputs_ + "_success", "Inputs that encoders have answered.", labels_)
      .add(static_cast<double>(inputs_));
  metrics_.histogram("te_request_inference_duration", "Seconds from the queue to the result.", kSeconds, labels_)
      .observe(seconds_between(begun_at_, now));
  metrics_.histogram("te_request_duration", "Seconds of a request, with its queue.", kSeconds, labels_)
      .observe(seconds_between(whole_at_, now));
}

void EncoderMetrics::failed(int status) {
  metrics_
      .counter("te_request_failure", "Requests that encoders have not answered.",
               {{"err", reason_of(status)}, {"model_name", labels_[0].second}})
      .add();
}

}  // namespace transom::serve
