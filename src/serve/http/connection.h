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

#include "serve/http/server.h"

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
  std::atomic<int64_t> connections{0}, active{0};
  std::atomic<bool> draining{false};
};

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
  std::mutex mutex;
  std::string bytes;
  size_t unsent = 0;      // these and those that are being written
  bool complete = false;  // nothing more will come
  bool scheduled = false;
};

}  // namespace transom::serve
