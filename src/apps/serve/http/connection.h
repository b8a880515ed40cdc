// SPDX-License-Identifier: Apache-2.0
// One connection: reads heads and bodies with limits and deadlines, hands requests to the service, writes answers, and
// sees when the client leaves. Private to this folder; Stream is a TCP socket or a TLS stream on one.
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <atomic>
#include <deque>
#include <mutex>

#include "apps/serve/http/pace.h"
#include "apps/serve/http/server.h"

namespace transom::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Socket = asio::ip::tcp::socket;
using SecureStream = asio::ssl::stream<Socket>;

// What all connections of a server share. Used by the thread of the connections, save for the atomics.
struct ServerState {
  ServerState(const HttpOptions& options, HttpService& service) : options(options), service(service) {}
  const HttpOptions& options;
  HttpService& service;
  std::atomic<int64_t> connections{0}, active{0}, body_bytes{0}, answer_bytes{0};
  std::atomic<bool> draining{false};
  // What comes or goes at least in such a time.
  int64_t least_bytes(std::chrono::milliseconds time) const { return options.least_rate * time.count() / 1000; }
};

// Bytes that are counted among those of a server for as long as this lives.
class CountedBytes {
 public:
  CountedBytes(std::shared_ptr<ServerState> state, std::atomic<int64_t> ServerState::*sum)
      : state_(std::move(state)), sum_(sum) {}
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;
  ~CountedBytes() { set(0); }
  // How many they are now; gives back the sum of all.
  int64_t set(int64_t bytes) { return ((*state_).*sum_ += bytes - std::exchange(bytes_, bytes)); }

 private:
  std::shared_ptr<ServerState> state_;
  std::atomic<int64_t> ServerState::*sum_;
  int64_t bytes_ = 0;
};

inline bool has_whole_head(const beast::flat_buffer& buffer) {
  const auto data = buffer.data();
  return std::string_view(static_cast<const char*>(data.data()), data.size()).find("\r\n\r\n") !=
         std::string_view::npos;
}

// What the server keeps of a connection.
class ConnectionBase : public std::enable_shared_from_this<ConnectionBase> {
 public:
  virtual ~ConnectionBase() = default;
  virtual void start() = 0;
  virtual void close() = 0;
  virtual void close_if_idle() = 0;
};

std::shared_ptr<ConnectionBase> make_connection(Socket socket, std::shared_ptr<ServerState> state);
std::shared_ptr<ConnectionBase> make_secure_connection(Socket socket, asio::ssl::context& context,
                                                       std::shared_ptr<ServerState> state);

// Bytes on their way to a client, filled by any thread.
struct Outbox {
  explicit Outbox(std::shared_ptr<ServerState> state) : counted(std::move(state), &ServerState::answer_bytes) {}
  std::mutex mutex;
  std::string bytes;
  size_t unsent = 0;      // these and those that are being written
  CountedBytes counted;   // of all answers together
  bool complete = false;  // nothing more will come
  bool scheduled = false;
  bool closed = false;  // nobody takes any more
  void close() {
    const std::lock_guard lock(mutex);
    closed = true;
    bytes = std::string();
    counted.set(0);
  }
};

}  // namespace transom::serve
