// SPDX-License-Identifier: Apache-2.0
// From a request to its handler: paths, methods, keys, origins, and whether the server takes requests at all.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/serve/api/call.h"
#include "apps/serve/server/key_check.h"

namespace transom::serve {

class Router : public HttpService {
 public:
  explicit Router(Services& services);
  std::optional<HttpResponse> admit(const HttpRequest& head, uint64_t& body_limit) override;
  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) override;
  HttpResponse refusal(int status, const std::string& reason) override;

 private:
  const Route* find(const HttpRequest& head, std::string* allowed) const;
  bool is_own_host(const HttpRequest& head) const;
  bool is_own_origin(const HttpRequest& head) const;
  bool is_full() const;
  ApiError too_many() const;
  Headers cors_headers() const;
  Services& services_;
  KeyCheck keys_;
  bool loopback_;
  std::vector<Route> routes_;
};

}  // namespace transom::serve
