// SPDX-License-Identifier: Apache-2.0
// `transom route`: several servers behind one address. A request goes to the server that has seen the beginning of its
// prompt, unless that one has much more to do than another.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/route/forwarding.h"
#include "apps/route/prefix_places.h"
#include "apps/serve/http/server.h"

namespace transom::route {

struct RouteOptions {
  std::vector<std::string> servers;  // URLs
  serve::HttpOptions http;
  std::string api_key;                          // with which the router itself asks for lists of models
  std::chrono::milliseconds look_every{2'000};  // at the servers' health
  std::chrono::milliseconds look_limit{2'000};
  uint64_t body_limit = uint64_t{256} << 20;
};

class RouteService : public serve::HttpService {
 public:
  // Throws Error where a URL is none, or its host is not found.
  explicit RouteService(RouteOptions options);
  ~RouteService() override;
  void start();  // looks at the servers, then opens the port
  uint16_t port() const { return server_.port(); }
  size_t answering() const;
  void drain() { server_.drain(); }
  bool is_idle() const { return counts_.in_work == 0; }

  std::optional<serve::HttpResponse> admit(const serve::HttpRequest& head, uint64_t& body_limit) override;
  void handle(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder) override;
  serve::HttpResponse refusal(int status, const std::string& reason) override;

 private:
  void look();
  std::vector<ServerLink*> order_for(const serve::HttpRequest& request);
  std::string metrics() const;
  std::string models() const;

  RouteOptions options_;
  RouteCounts counts_;
  std::vector<std::unique_ptr<ServerLink>> links_;
  PrefixPlaces places_;  // of the first link's thread
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread looking_;
  serve::HttpServer server_;
};

}  // namespace transom::route
