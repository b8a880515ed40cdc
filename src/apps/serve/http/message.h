// SPDX-License-Identifier: Apache-2.0
// What a request and its answer are to the handlers: plain values that know no HTTP library.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;
using Clock = std::chrono::steady_clock;

// A request whose head is read; `body` is empty until the whole is.
struct HttpRequest {
  std::string method;  // "GET"; a HEAD comes as GET, its body is not sent
  std::string target;  // as it was sent
  std::string path;    // percent-decoded, without the query
  std::string query;   // behind the '?', as it was sent
  Headers headers;     // in order; names in lower case
  std::string body;
  std::string id;  // X-Request-Id of the client if it is printable, else one of our own
  bool secure = false;
  std::string peer;            // address of the client
  std::shared_ptr<void> held;  // counts the bytes of the body for as long as the request lives
  Clock::time_point arrival = Clock::now();

  // The value of the first header of that name (in lower case); null without one.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers = {};
  bool close = false;  // the connection ends behind it
};

// Answers one request, by respond() once or by begin_stream(), write() ... and finish(). Any thread may call it, one at
// a time. What is called after the client left does nothing.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void respond(HttpResponse response) = 0;
  // Sends the head of an answer whose body comes in parts; `head.body` is the first of them.
  virtual void begin_stream(HttpResponse head) = 0;
  // False if the client has left, or reads so slowly that it was dropped.
  virtual bool write(std::string part) = 0;
  virtual void finish() = 0;
  virtual bool gone() const = 0;
  // Calls `left` once, on the thread of the connections, when the client leaves before the answer is complete; at once
  // if it has left.
  virtual void on_gone(std::function<void()> left) = 0;
};

// Where requests go. Both functions are called on the thread of the connections and must not block.
class HttpService {
 public:
  virtual ~HttpService() = default;
  // Looks at a head before the body is read. An answer refuses the request and ends the connection; otherwise
  // `body_limit` says how many bytes the body may have.
  virtual std::optional<HttpResponse> admit(const HttpRequest& head, uint64_t& body_limit) = 0;
  virtual void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) = 0;
  // The answer to what the connection itself refuses: 400, 408, 413, 431, 503.
  virtual HttpResponse refusal(int status, const std::string& reason) = 0;
};

// "Not Found" of 404.
std::string_view reason_phrase(int status);
// Reads path and query from the target, which may be a whole address; false where an escape is broken.
bool read_target(HttpRequest& request);

struct HeadRefusal {
  int status;
  std::string reason;
};
// Why a request with these headers is not taken; empty: it is.
std::optional<HeadRefusal> refused_head(const HttpRequest& request, int64_t most_headers);
// The client's own if it is up to 128 printable characters, else a new one.
std::string request_id(const std::string* given);
// The trace that the header `traceparent` names (https://www.w3.org/TR/trace-context/): 32 digits; empty without one.
std::string trace_id(const std::string* traceparent);
// The value of a field of a media type or of another header: parameter_of("a; boundary=x", "boundary") is "x".
std::string header_parameter(std::string_view header, std::string_view name);
// The same of a query, as it was sent; absent: none.
std::optional<std::string_view> query_parameter(std::string_view query, std::string_view name);
std::string lower_case(std::string_view text);
std::string_view trimmed(std::string_view text);

}  // namespace transom::serve
