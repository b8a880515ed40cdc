// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/server.h"

#include <sys/resource.h>

#include <list>
#include <thread>

#include "apps/serve/http/connection.h"
#include "base/error.h"

namespace transom::serve {

class HttpServer::Implementation {
 public:
  Implementation(HttpOptions given, HttpService& service)
      : options(std::move(given)),
        state(std::make_shared<ServerState>(options, service)),
        acceptor_(context_),
        pause_(context_) {}

  void start() {
    raise_descriptor_limit();
    if (!options.ssl_certfile.empty()) read_certificate();
    boost::system::error_code error;
    asio::ip::tcp::resolver resolver(context_);
    const auto found = resolver.resolve(options.host, std::to_string(options.port), error);
    if (error) fail("--host {}: {}", quoted(options.host), error.message());
    const asio::ip::tcp::endpoint endpoint = *found.begin();
    const auto check = [&](const char* what) {
      if (error) fail("{}:{}: cannot {}: {}", options.host, options.port, what, error.message());
    };
    acceptor_.open(endpoint.protocol(), error);
    check("open a socket");
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    check("listen");
    acceptor_.listen(4096, error);
    check("listen");
    port = acceptor_.local_endpoint(error).port();
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }

  void drain() {
    state->draining = true;
    asio::post(context_, [this] {
      for (const auto& weak : connections_)
        if (const auto connection = weak.lock()) connection->close_if_idle();
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      for (const auto& weak : connections_)
        if (const auto connection = weak.lock()) connection->close();
      connections_.clear();
      context_.stop();
    });
    thread_.join();
    context_.restart();
    context_.poll();  // handlers that hold connections run or go
  }

  HttpOptions options;
  std::shared_ptr<ServerState> state;
  uint16_t port = 0;

 private:
  static void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }

  void read_certificate() {
    boost::system::error_code error;
    tls_.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                     asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
    tls_.use_certificate_chain_file(options.ssl_certfile, error);
    if (error) fail("--ssl_certfile {}: {}", quoted(options.ssl_certfile), error.message());
    const std::string& key = options.ssl_keyfile.empty() ? options.ssl_certfile : options.ssl_keyfile;
    tls_.use_private_key_file(key, asio::ssl::context::pem, error);
    if (error) fail("--ssl_keyfile {}: {}", quoted(key), error.message());
  }

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, Socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) {
        // Out of descriptors: those who are here go on, and a place is tried for again a little later.
        pause_.expires_after(std::chrono::milliseconds(50));
        pause_.async_wait([this](boost::system::error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      if (state->connections >= options.max_connections) {
        boost::system::error_code ignored;
        socket.non_blocking(true, ignored);
        static constexpr std::string_view kFull =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        socket.write_some(asio::buffer(kFull), ignored);
        socket.close(ignored);
        return accept();
      }
      const auto connection = options.ssl_certfile.empty() ? make_connection(std::move(socket), state)
                                                           : make_secure_connection(std::move(socket), tls_, state);
      remember(connection);
      connection->start();
      accept();
    });
  }

  void remember(const std::shared_ptr<ConnectionBase>& connection) {
    connections_.push_back(connection);
    if (connections_.size() < 2 * swept_ + 64) return;
    connections_.remove_if([](const auto& weak) { return weak.expired(); });
    swept_ = connections_.size();
  }

  asio::io_context context_{1};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  std::list<std::weak_ptr<ConnectionBase>> connections_;
  size_t swept_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(HttpOptions options, HttpService& service)
    : implementation_(std::make_unique<Implementation>(std::move(options), service)) {}
HttpServer::~HttpServer() { stop(); }
void HttpServer::start() { implementation_->start(); }
uint16_t HttpServer::port() const { return implementation_->port; }
void HttpServer::drain() { implementation_->drain(); }
void HttpServer::stop() { implementation_->stop(); }
HttpStatistics HttpServer::statistics() const {
  return {implementation_->state->connections, implementation_->state->active};
}

}  // namespace transom::serve
