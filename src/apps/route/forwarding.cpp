// SPDX-License-Identifier: Apache-2.0
#include "apps/route/forwarding.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json/json.h"

namespace transom::route {
namespace {

// Of a connection, not of what goes over it (RFC 9110, 7.6.1), or made anew.
bool is_of_connection(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames{
      "connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade", "host", "expect",
      "date",       "server",     "proxy-connection"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string error_body(const std::string& why, int status) {
  return dump_json(Json{{"error", {{"message", why}, {"type", "server_error"}, {"code", status}}}});
}

constexpr int kBadGateway = 502, kUnavailable = 503;

}  // namespace

Forwarding::Forwarding(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder,
                       std::vector<ServerLink*> order, RouteCounts& counts)
    : request_(std::move(request)), responder_(std::move(responder)), order_(std::move(order)), counts_(counts) {
  ++counts_.in_work;
}

Forwarding::~Forwarding() { --counts_.in_work; }

void Forwarding::start() {
  responder_->on_gone([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    if (!self->link_) return;
    ServerLink* link = self->link_;
    link->client().post([self, link] {
      link->client().drop(self);
      self->leave_server();
    });
  });
  ask_next();
}

client::ClientRequest Forwarding::own_request() const {
  client::ClientRequest own{.method = request_->method, .path = request_->target, .body = request_->body};
  for (const auto& [name, value] : request_->headers)
    if (!is_of_connection(name) && name != "x-request-id" && name != "x-forwarded-for")
      own.headers.emplace_back(name, value);
  own.headers.emplace_back("x-request-id", request_->id);
  own.headers.emplace_back("x-forwarded-for", request_->peer);
  return own;
}

void Forwarding::ask_next() {
  if (next_ == order_.size() || counts_.ends) {
    ++counts_.unanswered;
    responder_->respond(
        {.status = kUnavailable, .body = error_body("no server answers; try again later", kUnavailable)});
    return;
  }
  if (next_ > 0) ++counts_.retries;
  ServerLink* link = order_[next_++];
  answer_ = {};
  whole_ = passed_over_ = false;
  {
    const std::lock_guard lock(mutex_);
    link_ = link;
  }
  ++link->active, ++link->requests;
  link->client().post([self = shared_from_this(), link] {
    if (self->responder_->gone()) return self->leave_server();
    try {
      link->client().send(self->own_request(), self);
    } catch (const Error& error) {  // a header that no server takes
      self->leave_server();
      self->responder_->respond({.status = 400, .body = error_body(error.what(), 400)});
    }
  });
}

void Forwarding::leave_server() {
  const std::lock_guard lock(mutex_);
  if (ServerLink* link = std::exchange(link_, nullptr)) --link->active;
}

void Forwarding::on_header(std::string_view given, std::string_view value) {
  const std::string name = serve::lower_case(given);
  if (name == "content-length") whole_ = true;
  if (name == "content-type") answer_.content_type = value;
  else if (!is_of_connection(name) && name != "x-request-id") answer_.headers.emplace_back(given, value);
}

void Forwarding::on_head(int status) {
  answer_.status = status;
  // It is ending, or loading its models; another one may not be.
  passed_over_ = status == kUnavailable && next_ < order_.size();
  constexpr int kNoContent = 204;
  whole_ = whole_ || status == kNoContent;
  if (whole_ || passed_over_) return;
  begun_ = true;
  responder_->begin_stream(answer_);
}

void Forwarding::on_body(std::string_view piece) {
  if (passed_over_) return;
  if (whole_) {
    answer_.body += piece;
    return;
  }
  if (responder_->write(std::string(piece))) return;
  const auto self = shared_from_this();  // the client lets go of it
  ServerLink* link = nullptr;
  {
    const std::lock_guard lock(mutex_);
    link = link_;
  }
  if (!link) return;
  link->client().drop(self);
  leave_server();
}

void Forwarding::on_end(const std::string& error) {
  ServerLink* link = nullptr;
  {
    const std::lock_guard lock(mutex_);
    link = link_;
  }
  leave_server();
  if (error.empty() && !passed_over_) {
    if (whole_) responder_->respond(std::move(answer_));
    else responder_->finish();
    return;
  }
  if (!error.empty() && link) ++link->failures, link->note_failure();
  if (!begun_) return ask_next();
  // Part of the answer is with the client: it is told, in the form of its stream, that the rest does not come.
  const bool lines = answer_.content_type.starts_with("application/x-ndjson");
  const std::string body = error_body("the server broke off its answer: " + error, kBadGateway);
  responder_->write(lines ? body + "\n" : "data: " + body + "\n\n");
  responder_->finish();
}

}  // namespace transom::route
