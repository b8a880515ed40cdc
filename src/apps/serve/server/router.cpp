// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/server/router.h"

#include <algorithm>

#include "apps/serve/adapters/routes.h"
#include "apps/serve/anthropic/routes.h"
#include "apps/serve/batches/routes.h"
#include "apps/serve/http/own_host.h"
#include "apps/serve/inference/routes.h"
#include "apps/serve/metrics/request_metrics.h"
#include "apps/serve/ollama/routes.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/operations/routes.h"
#include "apps/serve/page/page.h"
#include "apps/serve/scoring/routes.h"
#include "apps/serve/tei/routes.h"
#include "apps/serve/tgi/routes.h"

namespace transom::serve {

Router::Router(Services& services)
    : services_(services), keys_(services.options.api_keys), loopback_(is_loopback(services.options.http.host)) {
  for (const auto& list :
       {page_routes(), operations_routes(), openai_routes(), anthropic_routes(), adapter_routes(), batch_routes(),
        scoring_routes(), tei_routes(), tgi_routes(), inference_routes(), ollama_routes()})
    routes_.insert(routes_.end(), list.begin(), list.end());
}

const Route* Router::find(const HttpRequest& head, std::string* allowed) const {
  const Route* found = nullptr;
  for (const Route& route : routes_) {
    const bool matches = (route.flags & Route::kPrefix) != 0
                             ? head.path.starts_with(route.path) && head.path.size() > route.path.size()
                             : head.path == route.path;
    if (!matches) continue;
    if (head.method == route.method && !found) found = &route;
    if (allowed && allowed->find(route.method) == allowed->npos)
      *allowed += (allowed->empty() ? "" : ", ") + std::string(route.method);
  }
  return found;
}

bool Router::is_own_host(const HttpRequest& head) const {
  return !loopback_ || keys_.required() || names_own_host(head, services_.options.http.host);
}

// A page of another site may send a request that needs no preflight to a server of this machine, though it cannot read
// the answer. What is no page of the Web ("app://...") comes from a program of the user's.
bool Router::is_own_origin(const HttpRequest& head) const {
  const std::string* origin = head.header("origin");
  const std::string& allowed = services_.options.cors_allow_origin;
  if (!origin || !loopback_ || keys_.required() || allowed == "*" || *origin == allowed) return true;
  const size_t scheme = origin->find("://");
  if (scheme == origin->npos) return false;
  if (const std::string name = origin->substr(0, scheme); name != "http" && name != "https") return true;
  return is_own_name(origin->substr(scheme + 3), services_.options.http.host);
}

Headers Router::cors_headers() const {
  if (services_.options.cors_allow_origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", services_.options.cors_allow_origin}, {"Vary", "Origin"}};
}

HttpResponse Router::refusal(int status, const std::string& reason) {
  return error_response(ApiError(status, reason), ErrorForm::kOpenAi);
}

std::optional<HttpResponse> Router::admit(const HttpRequest& head, uint64_t& body_limit) {
  if (!is_own_host(head)) return refusal(403, "the Host header names another host than this server");
  if (!is_own_origin(head))
    return refusal(403,
                   "the Origin header names another site than this server; --cors_allow_origin lets its pages ask");
  if (head.method == "OPTIONS" && !services_.options.cors_allow_origin.empty()) {
    HttpResponse response{.status = 204, .content_type = "", .headers = cors_headers()};
    response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    response.headers.emplace_back("Access-Control-Allow-Headers",
                                  "*, Authorization");  // official clients bring their own
    return response;
  }
  std::string allowed;
  const Route* route = find(head, &allowed);
  const auto refuse = [&](const ApiError& error, ErrorForm form) {
    count_request(services_.metrics, route ? route->path : "none", route ? route->method : "other", error.status());
    HttpResponse response = error_response(error, form);
    for (const auto& header : cors_headers()) response.headers.push_back(header);
    return response;
  };
  // Without a key nothing is told, not even which paths there are.
  const bool open = route && (route->flags & Route::kOpen) != 0;
  if (keys_.required() && !open && !keys_.find_in(head))
    return refuse(
        ApiError(401, "a valid API key is missing: send the header Authorization: Bearer KEY, or x-api-key: KEY", "",
                 "invalid_api_key"),
        route ? route->form : ErrorForm::kOpenAi);
  if (!route) {
    const ErrorForm form = head.path.starts_with("/api/") ? ErrorForm::kOllama : ErrorForm::kOpenAi;
    if (allowed.empty()) return refuse(ApiError(404, fmt::format("there is no path {}", quoted(head.path))), form);
    HttpResponse response = refuse(ApiError(405, fmt::format("this path takes {}", allowed)), form);
    response.headers.emplace_back("Allow", allowed);
    return response;
  }
  if ((route->flags & Route::kAtOnce) == 0) {
    const Readiness readiness = services_.readiness;
    if (readiness == Readiness::kLoading) return refuse(ApiError(503, "the server is loading its models"), route->form);
    if (readiness == Readiness::kDraining) {
      HttpResponse response = refuse(ApiError(503, "the server is ending"), route->form);
      response.close = true;
      return response;
    }
    if (is_full()) return refuse(too_many(), route->form);
  }
  if ((route->flags & Route::kAtOnce) != 0) body_limit = 16 * 1024;  // nobody reads it, and it takes no place
  else
    body_limit =
        (route->flags & Route::kMedia) != 0 ? services_.options.media_body_limit : services_.options.body_limit;
  return std::nullopt;
}

// Who has left may still be in work. Bodies that are on their way take no place, so that slow ones hold up nobody.
bool Router::is_full() const { return services_.in_flight >= services_.options.max_concurrent_requests; }

ApiError Router::too_many() const {
  return {429, fmt::format("{} requests are in work, at most {} may be; try again later", services_.in_flight.load(),
                           services_.options.max_concurrent_requests)};
}

void Router::handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) {
  const Route* route = find(*request, nullptr);
  if (!route) return responder->respond(refusal(404, "there is no such path"));
  const bool waits = (route->flags & Route::kAtOnce) == 0;
  if (waits && is_full()) {  // others were faster while the body came
    HttpResponse response = error_response(too_many(), route->form);
    for (const auto& header : cors_headers()) response.headers.push_back(header);
    return responder->respond(std::move(response));
  }
  // Each key is a tenant of the engines. Its name is that of no other key, before or after a restart: beginnings of
  // prompts may outlive the server.
  std::string tenant;
  if (keys_.required())
    if (const auto key = keys_.find_in(*request)) tenant = keys_.name_of(*key);
  const auto call =
      std::make_shared<Call>(services_, std::move(request), std::move(responder), route->form, route->path);
  call->answer_headers = cors_headers();
  call->tenant = std::move(tenant);
  const Handler handler = route->handler;
  if (!waits) call->guard([&] { handler(call); });
  else call->post([call, handler] { handler(call); });
}

}  // namespace transom::serve
