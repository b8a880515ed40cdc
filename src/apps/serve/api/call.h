// SPDX-License-Identifier: Apache-2.0
// One request on its way through the server, from the handler that parses it to the thread that answers.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "apps/serve/api/api_error.h"
#include "apps/serve/api/options.h"
#include "apps/serve/api/services.h"
#include "apps/serve/http/message.h"
#include "base/json/json.h"

namespace transom::serve {

// Any thread, one at a time. What is not answered when the last owner goes is answered with 500.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Services& services, std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder, ErrorForm form,
       std::string handler);
  ~Call();

  Services& services() { return services_; }
  // Services::model, which stays in memory until this call is over.
  ServedModel& use_model(const std::string* name, bool (*usable)(const ModelFacts&), const char* purpose);
  const HttpRequest& request() const { return *request_; }
  // Where the body tells which of two interfaces a path is asked by.
  void answer_errors_as(ErrorForm form) { form_ = form; }
  ErrorForm form() const { return form_; }
  Json body() const;  // as JSON, or 400
  // True once the client has left.
  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return cancelled_; }
  void on_gone(std::function<void()> left);

  void reply(const Json& json);
  void respond(HttpResponse response);
  void fail(const std::exception_ptr& error);
  // Runs `work` on one of the threads for requests; what it throws becomes the answer.
  void post(std::function<void()> work);
  void guard(const std::function<void()>& work);

  // Streams of server-sent events, or of lines.
  void begin_stream(const std::string& content_type = "text/event-stream; charset=utf-8");
  bool streams() const { return streams_; }
  bool write(std::string part);
  bool event(const Json& data) { return write("data: " + compact_json(data) + "\n\n"); }
  void finish_stream();

  // For the log and the metrics.
  std::string model, finish_reason;
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  double queue_ms = -1, first_token_ms = -1;
  Headers answer_headers;  // added to every answer
  std::string tenant;      // whose key it has, where there are several

  double milliseconds() const;                      // since the head came
  const Clock::time_point whole_at = Clock::now();  // its body had come

 private:
  static std::string compact_json(const Json& json);
  void record(int status);
  Services& services_;
  std::shared_ptr<HttpRequest> request_;
  std::shared_ptr<Responder> responder_;
  ErrorForm form_;
  std::string handler_;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  bool answered_ = false, streams_ = false, recorded_ = false;
  std::vector<std::shared_ptr<ServedModel>> models_;
};

using Handler = void (*)(const std::shared_ptr<Call>& call);

struct Route {
  enum Flags { kNone = 0, kOpen = 1, kAtOnce = 2, kMedia = 4, kPrefix = 8 };
  const char* method;
  std::string path;  // with kPrefix: what it begins with
  Handler handler;
  ErrorForm form = ErrorForm::kOpenAi;
  int flags =
      kNone;  // kOpen: without a key; kAtOnce: on the thread of the connections, also while loading and draining
};

}  // namespace transom::serve
