// SPDX-License-Identifier: Apache-2.0
// One request on its way to a server and back. Where a server does not answer, or is ending, the next one is asked, as
// long as nothing of an answer has gone to the client.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/route/server_link.h"
#include "apps/serve/http/message.h"

namespace transom::route {

struct RouteCounts {
  std::atomic<int64_t> requests{0}, retries{0}, unanswered{0}, by_prefix{0}, in_work{0};
  std::atomic<bool> ends{false};  // no further server is asked
};

class Forwarding : public client::ClientListener, public std::enable_shared_from_this<Forwarding> {
 public:
  // Servers in the order in which they are asked.
  Forwarding(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder,
             std::vector<ServerLink*> order, RouteCounts& counts);
  ~Forwarding() override;
  void start();

  void on_header(std::string_view name, std::string_view value) override;
  void on_head(int status) override;
  void on_body(std::string_view piece) override;
  void on_end(const std::string& error) override;

 private:
  void ask_next();
  client::ClientRequest own_request() const;
  void leave_server();

  const std::shared_ptr<serve::HttpRequest> request_;
  const std::shared_ptr<serve::Responder> responder_;
  const std::vector<ServerLink*> order_;
  RouteCounts& counts_;
  size_t next_ = 0;
  std::mutex mutex_;            // of link_
  ServerLink* link_ = nullptr;  // the one that is asked
  serve::HttpResponse answer_;  // what is known of it, and of a whole one the body
  bool whole_ = false, begun_ = false, passed_over_ = false;
};

}  // namespace transom::route
