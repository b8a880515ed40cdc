// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/call.h"

#include <ctime>

#include "apps/serve/api/request_json.h"
#include "apps/serve/api/stream_form.h"
#include "apps/serve/metrics/request_metrics.h"
#include "base/terminal/log.h"

namespace transom::serve {

Call::Call(Services& services, std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder,
           ErrorForm form, std::string handler)
    : services_(services),
      request_(std::move(request)),
      responder_(std::move(responder)),
      form_(form),
      handler_(std::move(handler)) {
  ++services_.in_flight;
  responder_->on_gone([cancelled = cancelled_] { *cancelled = true; });
}

Call::~Call() {
  if (!answered_ && !*cancelled_) {
    if (streams_) finish_stream();
    else fail(std::make_exception_ptr(ApiError(503, "the server is ending")));
  }
  if (!recorded_) record(499);
  --services_.in_flight;
}

Json Call::body() const { return parse_request_json(request_->body); }

void Call::on_gone(std::function<void()> left) {
  responder_->on_gone([cancelled = cancelled_, left = std::move(left)] {
    *cancelled = true;
    left();
  });
}

double Call::milliseconds() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - request_->arrival).count();
}

void Call::reply(const Json& json) { respond({.status = 200, .body = compact(json)}); }

void Call::respond(HttpResponse response) {
  if (answered_) return;
  answered_ = true;
  for (const auto& header : answer_headers) response.headers.push_back(header);
  record(response.status);  // first: who has the answer finds it counted
  responder_->respond(std::move(response));
}

void Call::fail(const std::exception_ptr& error) {
  const ApiError shown = api_error_of(error);
  if (!streams_) return respond(error_response(shown, form_));
  if (answered_) return;
  finish_reason = "error";
  write(stream_failure(shown, form_));
  finish_stream();
}

void Call::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    fail(std::current_exception());
  }
}

void Call::post(std::function<void()> work) {
  constexpr size_t kShortBody = 32 * 1024;  // others do not wait for what is made of a longer one
  services_.pool->post([self = shared_from_this(), work = std::move(work)] { self->guard(work); },
                       request_->body.size() > kShortBody);
}

ServedModel& Call::use_model(const std::string* name, bool (*usable)(const ModelFacts&), const char* purpose) {
  models_.push_back(services_.model(name, usable, purpose));
  return *models_.back();
}

void Call::begin_stream(const std::string& content_type) {
  if (streams_ || answered_) return;
  streams_ = true;
  HttpResponse head{.status = 200, .content_type = content_type};
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  for (const auto& header : answer_headers) head.headers.push_back(header);
  responder_->begin_stream(std::move(head));
}

bool Call::write(std::string part) { return responder_->write(std::move(part)); }

void Call::finish_stream() {
  if (answered_) return;
  answered_ = true;
  record(200);  // first: who has the answer finds it counted
  responder_->finish();
}

std::string Call::compact_json(const Json& json) { return compact(json); }

void Call::record(int status) {
  if (recorded_) return;
  recorded_ = true;
  if (*cancelled_) status = 499;
  count_request(services_.metrics, handler_, request_->method, status);
  observe_request_duration(services_.metrics, handler_, request_->method, milliseconds() / 1e3);
  if (!services_.options.log_request) return;
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &parts);
  const auto milliseconds_of_second =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const auto rounded = [](double value) { return std::round(value * 100) / 100; };
  Json line{{"ts", fmt::format("{}.{:03}Z", time, milliseconds_of_second)},
            {"level", status >= 500 ? "error" : "info"},
            {"request_id", request_->id},
            {"model", model},
            {"path", handler_},
            {"status", status},
            {"prompt_tokens", prompt_tokens},
            {"cached_tokens", cached_tokens},
            {"completion_tokens", completion_tokens},
            {"total_ms", rounded(milliseconds())}};
  if (const std::string trace = trace_id(request_->header("traceparent")); !trace.empty()) line["trace_id"] = trace;
  if (queue_ms >= 0) line["queue_ms"] = rounded(queue_ms);
  if (first_token_ms >= 0) line["ttft_ms"] = rounded(first_token_ms);
  if (!finish_reason.empty()) line["finish_reason"] = finish_reason;
  if (*cancelled_) line["aborted"] = true;
  if (services_.options.log_prompts) line["body"] = request_->body.substr(0, 10'000);
  services_.options.log_request(compact(line));
}

}  // namespace transom::serve
