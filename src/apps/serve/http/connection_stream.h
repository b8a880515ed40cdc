// SPDX-License-Identifier: Apache-2.0
// The connection over either kind of stream; included by connection.cpp and secure_connection.cpp alone.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/serve/http/connection.h"

namespace transom::serve {

namespace http = beast::http;

template <typename Stream>
class Connection final : public ConnectionBase {
 public:
  template <typename... Args>
  Connection(std::shared_ptr<ServerState> state, Args&&... args)
      : state_(std::move(state)),
        outbox_(state_),
        stream_(std::forward<Args>(args)...),
        deadline_(stream_.get_executor()),
        write_deadline_(stream_.get_executor()),
        pause_(stream_.get_executor()) {
    ++state_->connections;
    boost::system::error_code ignored;
    socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    const auto peer = socket().remote_endpoint(ignored);
    if (!ignored) peer_ = peer.address().to_string();
  }
  ~Connection() override { --state_->connections; }

  void start() override {
    if constexpr (kSecure) {
      expire(deadline_, state_->options.header_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = self()](boost::system::error_code error) {
        if (error) return self->close();
        self->read_some();
      });
    } else {
      expire(deadline_, state_->options.header_timeout);
      read_some();
    }
  }

  void close() override {
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kClosed;
    boost::system::error_code ignored;
    deadline_.cancel();
    write_deadline_.cancel();
    pause_.cancel();
    socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    socket().close(ignored);
    body_bytes_.reset();
    outbox_.close();
    leave();
  }

  void close_if_idle() override {
    if (phase_ == Phase::kIdle && buffer_.size() == 0) close();
  }

 private:
  static constexpr bool kSecure = std::is_same_v<Stream, SecureStream>;
  static constexpr size_t kMostPipelined = 64 * 1024;
  enum class Phase { kIdle, kHead, kBody, kBusy, kLinger, kClosed };
  using Parser = http::request_parser<http::string_body>;

  // The answer of one request. It outlives the connection's interest in it: after that nothing it does has an effect.
  class Answer final : public Responder {
   public:
    Answer(std::shared_ptr<Connection> connection, bool chunked, bool keep_alive, bool head_only, std::string id)
        : connection_(std::move(connection)),
          chunked_(chunked),
          keep_alive_(keep_alive),
          head_only_(head_only),
          id_(std::move(id)) {}
    ~Answer() override {
      // A handler that forgot its client.
      if (!done_ && !gone_) {
        if (started_) finish();
        else respond(connection_->state_->service.refusal(500, "the request was not answered"));
      }
    }

    void respond(HttpResponse response) override {
      if (done_ || started_) return;
      const ServerState& state = *connection_->state_;
      const auto size = static_cast<int64_t>(response.body.size());
      if (size > state.options.small_bytes && state.answer_bytes > state.options.answer_bytes)
        response = connection_->state_->service.refusal(503, "clients take their answers too slowly; try again later");
      std::string text = head_of(response, false);
      if (!head_only_) text += response.body;
      done_ = true;
      connection_->send(std::move(text), true);
    }
    void begin_stream(HttpResponse head) override {
      if (done_ || started_) return;
      started_ = true;
      std::string text = head_of(head, true);
      if (!head.body.empty()) text += framed(head.body);
      connection_->send(std::move(text), false);
    }
    bool write(std::string part) override {
      if (done_ || gone_) return false;
      if (part.empty() || head_only_) return true;
      return connection_->send(framed(part), false);
    }
    void finish() override {
      if (done_) return;
      done_ = true;
      connection_->send(chunked_ && !head_only_ ? "0\r\n\r\n" : "", true);
    }
    bool gone() const override { return gone_; }
    void on_gone(std::function<void()> left) override {
      {
        const std::lock_guard lock(mutex_);
        if (!gone_) {
          left_ = std::move(left);
          return;
        }
      }
      left();
    }
    void leave() {
      std::function<void()> left;
      {
        const std::lock_guard lock(mutex_);
        gone_ = true;
        left = std::move(left_);
        left_ = nullptr;
      }
      if (left) left();
    }
    void forget() {  // the answer is complete: nobody is called any more
      const std::lock_guard lock(mutex_);
      left_ = nullptr;
    }

   private:
    std::string head_of(const HttpResponse& response, bool stream) {
      if (response.close || connection_->state_->draining || (stream && !chunked_)) keep_alive_ = false;
      if (!keep_alive_) connection_->close_behind_ = true;
      std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
      if (!response.content_type.empty()) text += fmt::format("Content-Type: {}\r\n", response.content_type);
      for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
      if (!id_.empty()) text += fmt::format("X-Request-Id: {}\r\n", id_);
      text += keep_alive_ ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
      if (!stream) text += fmt::format("Content-Length: {}\r\n", response.body.size());
      else if (chunked_) text += "Transfer-Encoding: chunked\r\n";
      return text + "\r\n";
    }
    std::string framed(const std::string& part) const {
      return chunked_ ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : part;
    }

    std::shared_ptr<Connection> connection_;
    bool chunked_, keep_alive_, head_only_;
    std::string id_;
    bool started_ = false, done_ = false;
    std::atomic<bool> gone_{false};
    std::mutex mutex_;
    std::function<void()> left_;
  };

  std::shared_ptr<Connection> self() { return std::static_pointer_cast<Connection>(shared_from_this()); }
  Socket& socket() {
    if constexpr (kSecure) return stream_.next_layer();
    else return stream_;
  }

  void expire(asio::steady_timer& timer, std::chrono::milliseconds time) {
    timer.expires_after(time);
    timer.async_wait([weak = weak_from_this(), &timer](boost::system::error_code error) {
      if (error) return;
      if (const auto connection = weak.lock(); connection && timer.expiry() <= std::chrono::steady_clock::now())
        connection->close();
    });
  }

  // ---- reading

  // Always outstanding while a request is computed, so that a client that leaves is seen at once.
  void read_some() {
    if (reading_ || phase_ == Phase::kClosed) return;
    reading_ = true;
    stream_.async_read_some(buffer_.prepare(8 * 1024), [self = self()](boost::system::error_code error, size_t count) {
      self->reading_ = false;
      if (self->phase_ == Phase::kClosed) return;
      const bool ended = error == asio::error::eof && (self->pipelined_ || has_whole_head(self->buffer_));
      if (self->resumes_ && (!error || ended || error == asio::error::operation_aborted)) {
        self->resumes_ = false;
        self->input_ended_ = ended;
        self->buffer_.commit(count);
        if (ended && !has_whole_head(self->buffer_)) return self->close();
        return self->read_head();
      }
      // A client that has sent further requests and then closed its sending side waits for its answers.
      if (ended && self->phase_ == Phase::kBusy) {
        self->input_ended_ = true;
        return;
      }
      if (error) return self->close();
      self->buffer_.commit(count);
      self->has_read();
    });
  }

  void linger() {
    const bool pauses = linger_.wants_pause(buffer_.size());
    buffer_.consume(buffer_.size());
    if (linger_.is_over()) return close();
    if (!pauses) return read_some();
    pause_.expires_after(Linger::kPause);
    pause_.async_wait([self = self()](boost::system::error_code error) {
      if (!error && self->phase_ == Phase::kLinger) self->read_some();
    });
  }

  // Beyond this a client that pipelines and leaves is seen when its answer is written, as is one that has closed its
  // sending side.
  void watch() {
    if (!input_ended_ && buffer_.size() < kMostPipelined) read_some();
  }

  void has_read() {
    if (phase_ == Phase::kIdle) return read_head();
    if (phase_ == Phase::kLinger) return linger();
    // What is pipelined is kept for the next request; reading goes on to see the client leave.
    if (phase_ == Phase::kBusy) watch();
  }

  void read_head() {
    phase_ = Phase::kHead;
    parser_.emplace();
    parser_->header_limit(state_->options.header_limit);
    parser_->body_limit(boost::none);  // asked for when the path is known
    expire(deadline_, state_->options.header_timeout);
    http::async_read_header(stream_, buffer_, *parser_, [self = self()](boost::system::error_code error, size_t) {
      if (self->phase_ == Phase::kClosed) return;
      if (error) return self->refuse_head(error);
      self->has_head();
    });
  }

  void refuse_head(boost::system::error_code error) {
    if (error == http::error::header_limit)
      return refuse(431, fmt::format("the head of the request is larger than {} bytes", state_->options.header_limit));
    if (error == http::error::body_limit) return refuse(413, "the body is larger than this path takes");
    if (error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return refuse(400, fmt::format("the request is not HTTP: {}", error.message()));
    close();
  }

  void has_head() {
    const auto& message = parser_->get();
    request_ = std::make_shared<HttpRequest>();
    request_->method = std::string(message.method_string());
    request_->target = std::string(message.target());
    request_->secure = kSecure;
    request_->peer = peer_;
    head_only_ = message.method() == http::verb::head;
    if (head_only_) request_->method = "GET";
    for (const auto& field : message)
      request_->headers.emplace_back(lower_case(std::string(field.name_string())), std::string(field.value()));
    keep_alive_ = message.keep_alive();
    chunked_answer_ = message.version() >= 11;
    request_->id = request_id(request_->header("x-request-id"));
    if (const auto refusal = refused_head(*request_, state_->options.most_headers))
      return refuse(refusal->status, refusal->reason);
    if (!read_target(*request_)) return refuse(400, "the path holds a broken escape");
    uint64_t limit = 0;
    if (std::optional<HttpResponse> refused = state_->service.admit(*request_, limit)) {
      refused->close = refused->close || !parser_->is_done();
      return answer_now(std::move(*refused));
    }
    parser_->body_limit(limit);
    if (const auto length = parser_->content_length(); length && *length > limit)
      return refuse(413, fmt::format("the body has {} bytes, this path takes {}", *length, limit));
    ++state_->active;
    counted_ = true;
    if (parser_->is_done()) return has_body();
    const std::string* expect = request_->header("expect");
    if (expect && lower_case(*expect) == "100-continue") {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(kContinue), [self = self()](boost::system::error_code error, size_t) {
        if (error) self->close();
        else self->read_body();
      });
      return;
    }
    read_body();
  }

  void read_body() {
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kBody;
    parser_->eager(true);
    pace_of_body_.start();
    expire(deadline_, state_->options.body_timeout);
    read_more_body();
  }

  void read_more_body() {
    http::async_read_some(stream_, buffer_, *parser_, [self = self()](boost::system::error_code error, size_t count) {
      if (self->phase_ == Phase::kClosed) return;
      if (error) return self->refuse_head(error);
      if (!self->count_body()) return;
      if (self->parser_->is_done()) return self->has_body();
      const auto time = self->state_->options.body_timeout;
      if (self->pace_of_body_.reaches(self->state_->least_bytes(time), count)) self->expire(self->deadline_, time);
      self->read_more_body();
    });
  }

  // False where there is no room for the body, which is refused then.
  bool count_body() {
    const auto size = static_cast<int64_t>(parser_->get().body().size());
    if (!body_bytes_) body_bytes_ = std::make_shared<CountedBytes>(state_, &ServerState::body_bytes);
    if (body_bytes_->set(size) <= state_->options.body_bytes || size <= state_->options.small_bytes) return true;
    body_bytes_.reset();
    refuse(503, "the server holds too many large bodies at once; try again later");
    return false;
  }

  void has_body() {
    deadline_.cancel();
    request_->held = std::move(body_bytes_);
    request_->body = std::move(parser_->get().body());
    parser_.reset();
    phase_ = Phase::kBusy;
    const auto answer = make_answer();
    answer_ = answer;
    watch();
    state_->service.handle(std::move(request_), answer);
  }

  // ---- answering

  std::shared_ptr<Answer> make_answer() {
    {
      const std::lock_guard lock(outbox_.mutex);
      outbox_.complete = false;
    }
    close_behind_ = false;
    return std::make_shared<Answer>(self(), chunked_answer_, keep_alive_, head_only_, request_ ? request_->id : "");
  }

  void refuse(int status, const std::string& reason) {
    HttpResponse response = state_->service.refusal(status, reason);
    response.close = true;
    answer_now(std::move(response));
  }

  void answer_now(HttpResponse response) {
    deadline_.cancel();
    phase_ = Phase::kBusy;
    // What is left of the body must be read before the next request; it is simpler to end the connection.
    const auto answer = make_answer();
    parser_.reset();
    request_.reset();
    answer->respond(std::move(response));
  }

  // Any thread.
  bool send(std::string bytes, bool complete) {
    bool schedule = false;
    {
      const std::lock_guard lock(outbox_.mutex);
      if (outbox_.closed) return false;
      outbox_.bytes += bytes;
      outbox_.unsent += bytes.size();
      outbox_.counted.set(static_cast<int64_t>(outbox_.unsent));
      outbox_.complete = outbox_.complete || complete;
      if (!complete && outbox_.unsent > static_cast<size_t>(state_->options.unsent_limit)) {
        asio::post(stream_.get_executor(), [self = self()] { self->close(); });
        return false;
      }
      schedule = !outbox_.scheduled;
      outbox_.scheduled = true;
    }
    if (schedule) asio::post(stream_.get_executor(), [self = self()] { self->write_some(); });
    return true;
  }

  // One write at a time, of all that is there.
  void write_some() {
    if (phase_ == Phase::kClosed) return;
    {
      const std::lock_guard lock(outbox_.mutex);
      if (outbox_.bytes.empty()) {
        outbox_.scheduled = false;
        if (!outbox_.complete) return;
        outbox_.complete = false;
      } else {
        writing_.swap(outbox_.bytes);
        outbox_.bytes.clear();
      }
    }
    if (writing_.empty()) return has_answered();
    sent_ = 0;
    write_rest();
  }

  // In parts, so that what the client takes moves the deadline.
  void write_rest() {
    if (!pace_of_answer_.runs()) {
      pace_of_answer_.start();
      expire(write_deadline_, state_->options.write_timeout);
    }
    stream_.async_write_some(asio::buffer(writing_.data() + sent_, writing_.size() - sent_),
                             [self = self()](boost::system::error_code error, size_t count) {
                               if (error) return self->close();
                               self->sent_ += count;
                               const auto time = self->state_->options.write_timeout;
                               if (self->pace_of_answer_.reaches(self->state_->least_bytes(time), count))
                                 self->expire(self->write_deadline_, time);
                               if (self->sent_ < self->writing_.size()) return self->write_rest();
                               self->write_deadline_.cancel();
                               self->pace_of_answer_.stop();
                               {
                                 const std::lock_guard lock(self->outbox_.mutex);
                                 self->outbox_.unsent -= self->sent_;
                                 self->outbox_.counted.set(static_cast<int64_t>(self->outbox_.unsent));
                               }
                               self->writing_.clear();
                               self->write_some();
                             });
  }

  void has_answered() {
    if (const auto answer = answer_.lock()) answer->forget();
    answer_.reset();
    count_answered();
    if (close_behind_ || state_->draining) {
      // What the client still sends is read for a while: a reset would take the answer from it.
      phase_ = Phase::kLinger;
      boost::system::error_code ignored;
      socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      expire(deadline_, std::chrono::seconds(2));
      buffer_.consume(buffer_.size());
      return read_some();
    }
    phase_ = Phase::kIdle;
    pipelined_ = buffer_.size() > 0;
    // Behind the end of the input a read would wait for ever.
    if (input_ended_ && !has_whole_head(buffer_)) return close();
    expire(deadline_, state_->options.idle_timeout);
    if (reading_ && buffer_.size() > 0) {
      // The next request has begun: its head is read in the place of what only watched.
      resumes_ = true;
      boost::system::error_code ignored;
      socket().cancel(ignored);
      return;
    }
    if (reading_) return;
    if (buffer_.size() > 0) read_head();
    else read_some();
  }

  void count_answered() {
    if (!counted_) return;
    counted_ = false;
    --state_->active;
  }

  void leave() {
    if (const auto answer = answer_.lock()) answer->leave();
    answer_.reset();
    count_answered();
  }

  std::shared_ptr<ServerState> state_;
  Outbox outbox_;
  Stream stream_;
  asio::steady_timer deadline_, write_deadline_, pause_;
  beast::flat_buffer buffer_{1024 * 1024};
  std::optional<Parser> parser_;
  Phase phase_ = Phase::kIdle;
  bool reading_ = false, resumes_ = false, input_ended_ = false, pipelined_ = false, head_only_ = false,
       keep_alive_ = true, chunked_answer_ = true, counted_ = false;
  std::atomic<bool> close_behind_{false};
  Linger linger_;
  std::string peer_;
  std::shared_ptr<HttpRequest> request_;
  std::weak_ptr<Answer> answer_;  // that of the request in work; who computes it owns it
  Pace pace_of_body_, pace_of_answer_;
  std::shared_ptr<CountedBytes> body_bytes_;
  std::string writing_;
  size_t sent_ = 0;
};

}  // namespace transom::serve
