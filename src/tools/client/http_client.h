// SPDX-License-Identifier: Apache-2.0
// A client of one HTTP/1.1 server: many requests at once on one thread, each on a connection of its own, which the next
// request takes over when it is free.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/client/http_url.h"

namespace transom::client {

using Clock = std::chrono::steady_clock;

struct ClientRequest {
  std::string method = "GET";
  std::string path;  // behind that of the URL: "/v1/models"
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Host and those of the body
};

// Receives one answer, on the thread that runs the client. It may call the client, and must not throw.
class ClientListener {
 public:
  virtual ~ClientListener() = default;
  // Each header of the answer, before on_head.
  virtual void on_header(std::string_view /*name*/, std::string_view /*value*/) {}
  virtual void on_head(int /*status*/) {}
  // The next bytes of the body, without the marks of chunks.
  virtual void on_body(std::string_view piece) = 0;
  // The answer is whole, or `error` says why it is not. Called once; nothing follows.
  virtual void on_end(const std::string& error) = 0;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::milliseconds request_timeout{6 * 3600 * 1000};  // from the first byte sent to the last one read
  bool verify = true;                                          // of https: the certificate and its name
};

// One thread at a time.
class HttpClient {
 public:
  // Looks up the host. Throws Error (kInput) if there is none of that name.
  HttpClient(HttpUrl server, ClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const HttpUrl& server() const;
  void send(ClientRequest request, std::shared_ptr<ClientListener> listener);
  // Calls `work` at that time.
  void at(Clock::time_point time, std::function<void()> work);
  // Until nothing is sent, awaited or planned; behind keep_running() until stop().
  void run();
  void keep_running();
  // Calls `work` on the thread that runs the client; any thread may ask for it.
  void post(std::function<void()> work);
  // Ends what is under way for a listener, which hears nothing more.
  void drop(const std::shared_ptr<ClientListener>& listener);
  // Ends all that is under way; their listeners hear "stopped".
  void stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

struct ClientReply {
  int status = 0;
  std::string body;
};
// One request and its whole answer, of at most `most_bytes`. Throws Error (kInput) that names the URL if the server
// cannot be reached or breaks off; a status of 400 and more is an answer.
ClientReply fetch(const HttpUrl& server, ClientRequest request, const ClientOptions& options = {},
                  size_t most_bytes = 256 << 20);
// All of these requests, `at_once` under way at a time; the answers stand in their order. Throws like fetch().
std::vector<ClientReply> fetch_all(const HttpUrl& server, std::vector<ClientRequest> requests, size_t at_once,
                                   const ClientOptions& options = {}, size_t most_bytes = 256 << 20);

}  // namespace transom::client
