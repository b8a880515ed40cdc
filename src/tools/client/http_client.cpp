// SPDX-License-Identifier: Apache-2.0
#include "tools/client/http_client.h"

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <array>
#include <optional>
#include <set>

#include "base/error.h"

namespace transom::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using PlainStream = beast::tcp_stream;
using SecureStream = beast::ssl_stream<beast::tcp_stream>;
using ErrorCode = boost::system::error_code;

// A connection, which carries one request after the other.
class ConnectionBase {
 public:
  virtual ~ConnectionBase() = default;
  virtual void begin(std::string bytes, bool head_only, std::shared_ptr<ClientListener> listener) = 0;
  virtual void close(const std::string& error) = 0;
  // Ends the request of this listener without a word; false if it has another one.
  virtual bool drop(const ClientListener* listener) = 0;
};

// What connections share; it outlives them.
struct Shared {
  explicit Shared(ClientOptions given) : options(given) {}
  asio::io_context context;
  asio::ssl::context tls{asio::ssl::context::tls_client};
  asio::ip::tcp::resolver::results_type addresses;
  HttpUrl server;
  ClientOptions options;
  bool stopped = false;
  std::vector<std::shared_ptr<ConnectionBase>> idle;
  std::set<std::shared_ptr<ConnectionBase>> busy;
};

template <typename Stream>
class Connection final : public ConnectionBase, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  explicit Connection(Shared& shared) : shared_(shared), deadline_(shared.context) {}

  void begin(std::string bytes, bool head_only, std::shared_ptr<ClientListener> listener) override {
    bytes_ = std::move(bytes);
    head_only_ = head_only;
    listener_ = std::move(listener);
    deadline_.expires_after(shared_.options.request_timeout);
    deadline_.async_wait([weak = this->weak_from_this()](ErrorCode error) {
      if (const auto self = weak.lock(); self && !error) self->close("the answer took too long");
    });
    reused_ = stream_.has_value();
    if (reused_) write();
    else connect();
  }

  void close(const std::string& error) override {
    shut();
    end(error);
  }

  bool drop(const ClientListener* listener) override {
    if (!listener || listener_.get() != listener) return false;
    listener_ = nullptr;
    deadline_.cancel();
    shut();
    shared_.busy.erase(this->shared_from_this());
    return true;
  }

 private:
  static constexpr bool kSecure = std::is_same_v<Stream, SecureStream>;

  PlainStream& plain() {
    if constexpr (kSecure) return stream_->next_layer();
    else return *stream_;
  }

  void connect() {
    if constexpr (kSecure) stream_.emplace(shared_.context, shared_.tls);
    else stream_.emplace(shared_.context);
    buffer_.clear();
    dead_ = false;
    plain().expires_after(shared_.options.connect_timeout);
    plain().async_connect(shared_.addresses, [self = this->shared_from_this()](ErrorCode error, const auto&) {
      if (error) return self->close(fmt::format("cannot connect: {}", error.message()));
      ErrorCode ignored;
      self->plain().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
      self->handshake();
    });
  }

  void handshake() {
    if constexpr (kSecure) {
      const std::string& host = shared_.server.host;
      if (!SSL_set_tlsext_host_name(stream_->native_handle(), host.c_str()))
        return close("TLS refuses the host's name");
      if (shared_.options.verify) stream_->set_verify_callback(asio::ssl::host_name_verification(host));
      stream_->async_handshake(asio::ssl::stream_base::client, [self = this->shared_from_this()](ErrorCode error) {
        if (error) return self->close(fmt::format("TLS: {}", error.message()));
        self->write();
      });
    } else {
      write();
    }
  }

  void write() {
    if (!listener_) return;
    plain().expires_never();
    asio::async_write(*stream_, asio::buffer(bytes_), [self = this->shared_from_this()](ErrorCode error, size_t) {
      // A server may answer and close before it has read all: the answer is there to be read.
      if (error && self->reused_) return self->again();
      self->read_head();
    });
  }

  // A connection that was kept may have been closed meanwhile by the server, before it saw the request.
  void again() {
    if (!listener_) return;
    shut();
    reused_ = false;
    connect();
  }

  void read_head() {
    if (!listener_ || !stream_) return;
    parser_.emplace();
    parser_->body_limit(boost::none);  // nothing of the body is kept here
    parser_->skip(head_only_);
    http::async_read_header(*stream_, buffer_, *parser_, [self = this->shared_from_this()](ErrorCode error, size_t) {
      if (!self->listener_) return;
      if (error && self->reused_ && !self->parser_->got_some()) return self->again();
      if (error) return self->close(fmt::format("the connection broke before an answer: {}", error.message()));
      const auto status = static_cast<int>(self->parser_->get().result_int());
      if (status >= 100 && status < 200) return self->read_head();
      for (const auto& field : self->parser_->get())
        self->listener_->on_header({field.name_string().data(), field.name_string().size()},
                                   {field.value().data(), field.value().size()});
      self->listener_->on_head(status);
      self->read_body();
    });
  }

  void read_body() {
    if (!listener_ || !stream_) return;
    if (parser_->is_done()) return finish();
    auto& body = parser_->get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    http::async_read_some(*stream_, buffer_, *parser_, [self = this->shared_from_this()](ErrorCode error, size_t) {
      if (!self->listener_) return;
      if (error == http::error::need_buffer) error = {};
      const size_t count = self->piece_.size() - self->parser_->get().body().size;
      if (count > 0) self->listener_->on_body({self->piece_.data(), count});
      if (error) return self->close(fmt::format("the answer broke off: {}", error.message()));
      self->read_body();
    });
  }

  void finish() {
    const bool keep = parser_->get().keep_alive() && !parser_->get().need_eof() && buffer_.size() == 0;
    if (!keep) shut();
    end("");
  }

  void shut() {
    if (!stream_) return;
    ErrorCode ignored;
    plain().socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    plain().close();
    dead_ = true;
  }

  // Tells the listener, and makes place for the next request.
  void end(const std::string& error) {
    deadline_.cancel();
    const auto listener = std::exchange(listener_, nullptr);
    if (!listener) return;
    const auto self = this->shared_from_this();
    shared_.busy.erase(self);
    if (!dead_ && !shared_.stopped) shared_.idle.push_back(self);
    listener->on_end(error);
  }

  Shared& shared_;
  asio::steady_timer deadline_;
  std::optional<Stream> stream_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, 16 * 1024> piece_;
  std::string bytes_;
  std::shared_ptr<ClientListener> listener_;
  bool head_only_ = false, reused_ = false, dead_ = false;
};

// The head and body of a request as they are sent.
std::string bytes_of(const HttpUrl& server, const ClientRequest& request) {
  std::string text =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method, server.path, request.path, server.authority());
  bool says_type = false;
  for (const auto& [name, value] : request.headers) {
    says_type = says_type || name == "content-type";
    if (name.find_first_of("\r\n: ") != name.npos || value.find_first_of("\r\n") != value.npos)
      fail(ErrorKind::kUsage, "the header {} holds characters that no header may", quoted(name));
    text += fmt::format("{}: {}\r\n", name, value);
  }
  if (!request.body.empty() || request.method == "POST")
    text += fmt::format("{}Content-Length: {}\r\n", says_type ? "" : "Content-Type: application/json\r\n",
                        request.body.size());
  return text + "\r\n" + request.body;
}

}  // namespace

class HttpClient::Implementation {
 public:
  Implementation(HttpUrl server, ClientOptions options) : shared(options) {
    shared.server = std::move(server);
    ErrorCode error;
    asio::ip::tcp::resolver resolver(shared.context);
    shared.addresses = resolver.resolve(shared.server.host, shared.server.port, error);
    if (error) fail("{}: the host is not found: {}", shared.server.text(), error.message());
    if (shared.server.secure) {
      shared.tls.set_default_verify_paths(error);
      shared.tls.set_verify_mode(options.verify ? asio::ssl::verify_peer : asio::ssl::verify_none);
    }
  }
  ~Implementation() { stop(); }

  void send(ClientRequest request, std::shared_ptr<ClientListener> listener) {
    std::string bytes = bytes_of(shared.server, request);
    if (shared.stopped) return listener->on_end("stopped");
    std::shared_ptr<ConnectionBase> connection;
    if (!shared.idle.empty()) {
      connection = std::move(shared.idle.back());
      shared.idle.pop_back();
    } else if (shared.server.secure) {
      connection = std::make_shared<Connection<SecureStream>>(shared);
    } else {
      connection = std::make_shared<Connection<PlainStream>>(shared);
    }
    shared.busy.insert(connection);
    connection->begin(std::move(bytes), request.method == "HEAD", std::move(listener));
  }

  void at(Clock::time_point time, std::function<void()> work) {
    const auto timer = std::make_shared<asio::steady_timer>(shared.context, time);
    timers_.insert(timer);
    timer->async_wait([this, timer, work = std::move(work)](ErrorCode error) {
      timers_.erase(timer);
      if (!error && !shared.stopped) work();
    });
  }

  void run() {
    shared.context.restart();
    shared.context.run();
  }

  void drop(const ClientListener* listener) {
    const auto busy = shared.busy;
    for (const auto& connection : busy)
      if (connection->drop(listener)) return;
  }

  void stop() {
    shared.stopped = true;
    guard.reset();
    for (const auto& timer : timers_) timer->cancel();
    const auto busy = std::move(shared.busy);
    shared.busy.clear();
    for (const auto& connection : busy) connection->close("stopped");
    const auto idle = std::move(shared.idle);
    shared.idle.clear();
    for (const auto& connection : idle) connection->close("");
  }

  Shared shared;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard;  // run() goes on

 private:
  std::set<std::shared_ptr<asio::steady_timer>> timers_;
};

HttpClient::HttpClient(HttpUrl server, ClientOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(server), options)) {}
HttpClient::~HttpClient() = default;
const HttpUrl& HttpClient::server() const { return implementation_->shared.server; }
void HttpClient::send(ClientRequest request, std::shared_ptr<ClientListener> listener) {
  implementation_->send(std::move(request), std::move(listener));
}
void HttpClient::at(Clock::time_point time, std::function<void()> work) { implementation_->at(time, std::move(work)); }
void HttpClient::run() { implementation_->run(); }
void HttpClient::keep_running() { implementation_->guard.emplace(implementation_->shared.context.get_executor()); }
void HttpClient::post(std::function<void()> work) { asio::post(implementation_->shared.context, std::move(work)); }
void HttpClient::drop(const std::shared_ptr<ClientListener>& listener) { implementation_->drop(listener.get()); }
void HttpClient::stop() { implementation_->stop(); }

namespace {

class WholeAnswer final : public ClientListener {
 public:
  explicit WholeAnswer(size_t most_bytes) : most_bytes_(most_bytes) {}
  void on_head(int status) override { reply.status = status; }
  void on_body(std::string_view piece) override {
    if (reply.body.size() + piece.size() > most_bytes_) too_large = true;
    else if (!too_large) reply.body += piece;
  }
  void on_end(const std::string& why) override {
    error = why;
    if (ended) ended();
  }
  std::function<void()> ended;
  ClientReply reply;
  std::string error, path;
  bool too_large = false;

 private:
  size_t most_bytes_;
};

}  // namespace

ClientReply fetch(const HttpUrl& server, ClientRequest request, const ClientOptions& options, size_t most_bytes) {
  std::vector<ClientRequest> requests;
  requests.push_back(std::move(request));
  return std::move(fetch_all(server, std::move(requests), 1, options, most_bytes)[0]);
}

std::vector<ClientReply> fetch_all(const HttpUrl& server, std::vector<ClientRequest> requests, size_t at_once,
                                   const ClientOptions& options, size_t most_bytes) {
  HttpClient client(server, options);
  std::vector<std::shared_ptr<WholeAnswer>> answers;
  for (size_t i = 0; i < requests.size(); ++i) answers.push_back(std::make_shared<WholeAnswer>(most_bytes));
  size_t next = 0;
  const std::function<void()> send = [&] {
    if (next >= requests.size()) return;
    const size_t number = next++;
    answers[number]->path = requests[number].path;
    client.send(std::move(requests[number]), answers[number]);
  };
  for (const auto& answer : answers) answer->ended = send;
  for (size_t i = 0; i < std::max<size_t>(1, at_once); ++i) send();
  client.run();
  std::vector<ClientReply> replies;
  for (const auto& answer : answers) {
    if (!answer->error.empty()) fail("{}{}: {}", server.text(), answer->path, answer->error);
    if (answer->too_large) fail("{}{}: the answer is larger than {} bytes", server.text(), answer->path, most_bytes);
    replies.push_back(std::move(answer->reply));
  }
  return replies;
}

}  // namespace transom::client
