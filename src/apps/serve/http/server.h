// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on one thread (Boost.Asio and Beast): connections, their limits and deadlines. It knows no paths
// and no models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/serve/http/message.h"

namespace transom::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                     // 0: one that is free
  std::string ssl_certfile, ssl_keyfile;    // PEM; empty: no TLS
  int64_t max_connections = 10000;          // more are answered with 503 and closed
  uint32_t header_limit = 16 * 1024;        // bytes of a head; more: 431
  int64_t most_headers = 100;               // lines of a head; more: 431
  int64_t unsent_limit = 4 * 1024 * 1024;   // bytes of a stream that a slow client has not read; more: it is dropped
  int64_t body_bytes = int64_t{1} << 30;    // of all requests that are read or in work; more: 503
  int64_t answer_bytes = int64_t{1} << 30;  // of all answers that clients have not taken yet; more: 503
  int64_t small_bytes = 64 * 1024;          // bodies and answers up to here are taken in any case
  int64_t least_rate = 16 * 1024;           // bytes a second that clients send and take
  // Between two requests. Load balancers let go after 60 s as a rule: who closes first must not be the server.
  std::chrono::milliseconds idle_timeout{75'000};
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a head to its end
  std::chrono::milliseconds body_timeout{10'000};    // in which a body ends, or comes at the least rate
  std::chrono::milliseconds write_timeout{30'000};   // in which an answer is taken, or at the least rate
};

struct HttpStatistics {
  int64_t connections = 0;  // open now
  int64_t active = 0;       // requests whose head is admitted and that are not answered yet
};

// start() opens the port and serves on a thread of its own. The service outlives the server.
class HttpServer {
 public:
  HttpServer(HttpOptions options, HttpService& service);
  ~HttpServer();  // stops
  // Throws Error if the address cannot be had or the certificate cannot be read.
  void start();
  uint16_t port() const;
  // Each answer from now on ends its connection, and idle connections are closed.
  void drain();
  // Ends the thread and closes every connection.
  void stop();
  HttpStatistics statistics() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace transom::serve
