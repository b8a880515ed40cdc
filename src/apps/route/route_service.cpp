// SPDX-License-Identifier: Apache-2.0
#include "apps/route/route_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "apps/serve/http/own_host.h"
#include "base/error.h"
#include "base/json/json.h"

namespace transom::route {
namespace {

serve::HttpResponse refused(int status, const std::string& why) {
  const Json error{
      {"message", why}, {"type", status < 500 ? "invalid_request_error" : "server_error"}, {"code", status}};
  return {.status = status, .body = dump_json(Json{{"error", error}})};
}

// What one server keeps and others do not know of.
bool is_of_one_server(std::string_view path) {
  for (const std::string_view begin : {"/v1/files", "/v1/batches", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"})
    if (path.starts_with(begin)) return true;
  return false;
}

}  // namespace

RouteService::RouteService(RouteOptions options) : options_(std::move(options)), server_(options_.http, *this) {
  if (options_.servers.empty()) fail(ErrorKind::kUsage, "expected the URL of a server");
  std::set<std::string> seen;
  for (const std::string& text : options_.servers) {
    client::HttpUrl url = client::parse_http_url(text, "URL");
    if (!seen.insert(url.text()).second) fail(ErrorKind::kUsage, "URL: {} is given twice", url.text());
    links_.push_back(std::make_unique<ServerLink>(std::move(url)));
  }
}

RouteService::~RouteService() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  if (looking_.joinable()) looking_.join();
  server_.stop();
  counts_.ends = true;
  for (const auto& link : links_) link->stop();  // all of them before the first one goes: requests know several
  links_.clear();
}

void RouteService::start() {
  for (const auto& link : links_) link->look(options_.look_limit, options_.api_key);
  server_.start();
  looking_ = std::thread([this] { look(); });
}

void RouteService::look() {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, options_.look_every, [this] { return ends_; })) {
    lock.unlock();
    for (const auto& link : links_) link->look(options_.look_limit, options_.api_key);
    lock.lock();
  }
}

size_t RouteService::answering() const {
  return static_cast<size_t>(
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link->answers(); }));
}

serve::HttpResponse RouteService::refusal(int status, const std::string& reason) { return refused(status, reason); }

std::optional<serve::HttpResponse> RouteService::admit(const serve::HttpRequest& head, uint64_t& body_limit) {
  body_limit = options_.body_limit;
  // A page of another site must not reach servers through a router of this machine (apps/serve/server/router.cpp).
  if (serve::is_loopback(options_.http.host)) {
    if (!serve::names_own_host(head, options_.http.host))
      return refused(403, "the Host header names another host than this server");
    const std::string* origin = head.header("origin");
    const size_t scheme = origin ? origin->find("://") : std::string::npos;
    if (origin && (scheme == origin->npos || (origin->starts_with("http") &&
                                              !serve::is_own_name(origin->substr(scheme + 3), options_.http.host))))
      return refused(403, "the Origin header names another site than this server");
  }
  if (!head.target.starts_with('/')) return refused(400, "expected a path, found another target");
  if (is_of_one_server(head.path))
    return refused(501, fmt::format("{} is kept by one server: ask that one, not the router", head.path));
  return std::nullopt;
}

void RouteService::handle(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder) {
  const bool reads = request->method == "GET";
  if (reads && request->path == "/health") {
    if (answering() > 0) return responder->respond({.body = "{}"});
    return responder->respond(refused(503, "no server answers"));
  }
  if (reads && request->path == "/metrics")
    return responder->respond({.body = metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"});
  if (reads && request->path == "/v1/models")
    if (std::string list = models(); !list.empty()) return responder->respond({.body = std::move(list)});
  ++counts_.requests;
  // Not on the thread of the connections: bodies may be long.
  links_[0]->client().post([this, request = std::move(request), responder = std::move(responder)]() mutable {
    std::vector<ServerLink*> order = order_for(*request);
    std::make_shared<Forwarding>(std::move(request), std::move(responder), std::move(order), counts_)->start();
  });
}

std::vector<ServerLink*> RouteService::order_for(const serve::HttpRequest& request) {
  const RoutedBody body = request.body.empty() ? RoutedBody() : read_body(request.body);
  struct Ranked {  // as it is now: others change it meanwhile
    bool is_silent;
    int64_t active, so_far;
    ServerLink* link;
  };
  const auto may_have = [&](const auto& link) { return body.model.empty() || link->may_have(body.model); };
  const bool known = std::any_of(links_.begin(), links_.end(), may_have);  // else one says that it is not
  std::vector<Ranked> ranks;
  for (const auto& link : links_)
    if (!known || may_have(link)) ranks.push_back({!link->answers(), link->active, link->requests, link.get()});
  // Those that did not answer are asked last: they may have come back.
  std::stable_sort(ranks.begin(), ranks.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(a.is_silent, a.active, a.so_far) < std::tuple(b.is_silent, b.active, b.so_far);
  });
  std::vector<ServerLink*> order;
  for (const Ranked& each : ranks) order.push_back(each.link);
  if (body.beginning.empty()) return order;
  if (const auto seen = places_.find(body.beginning)) {
    const auto found = std::find(order.begin(), order.end(), links_[*seen].get());
    const int64_t least = order[0]->active;
    if (found != order.end() && (*found)->answers() && (*found)->active <= 2 * least + 4) {
      std::rotate(order.begin(), found, found + 1);
      ++counts_.by_prefix;
    }
  }
  for (size_t i = 0; i < links_.size(); ++i)
    if (links_[i].get() == order[0]) places_.remember(body.beginning, i);
  return order;
}

// Those of all servers, each name once; empty where none is known.
std::string RouteService::models() const {
  Json data = Json::array();
  std::set<std::string> names;
  for (const auto& link : links_) {
    const std::string text = link->answers() ? link->models() : "";
    if (text.empty()) continue;
    const Json list = parse_json(text, "/v1/models");
    for (const Json& each : list["data"])
      if (each.is_object() && each.contains("id") && each["id"].is_string() &&
          names.insert(each["id"].get<std::string>()).second)
        data.push_back(each);
  }
  return data.empty() ? "" : dump_json(Json{{"object", "list"}, {"data", data}});
}

std::string RouteService::metrics() const {
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, const auto& value_of) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, kind, help);
    for (const auto& link : links_)
      text += fmt::format("{}{{server=\"{}\"}} {}\n", name, link->url().text(), value_of(*link));
  };
  const auto sum = [&](const char* name, const char* help, int64_t value) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n{0} {2}\n", name, help, value);
  };
  add("transom_route_server_up", "gauge", "Whether the server answers.",
      [](const ServerLink& link) { return link.answers() ? 1 : 0; });
  add("transom_route_active_requests", "gauge", "Requests that the server has in work.",
      [](const ServerLink& link) { return link.active.load(); });
  add("transom_route_forwarded_total", "counter", "Requests that went to the server.",
      [](const ServerLink& link) { return link.requests.load(); });
  add("transom_route_failures_total", "counter", "Answers of the server that did not come or broke off.",
      [](const ServerLink& link) { return link.failures.load(); });
  sum("transom_route_requests_total", "Requests of clients.", counts_.requests);
  sum("transom_route_retries_total", "Requests that went to a further server.", counts_.retries);
  sum("transom_route_unanswered_total", "Requests that no server answered.", counts_.unanswered);
  sum("transom_route_prefix_hits_total", "Requests whose beginning the server has seen.", counts_.by_prefix);
  return text;
}

}  // namespace transom::route
