// SPDX-License-Identifier: Apache-2.0
// One of the servers behind a router: the connections to it, whether it answers, and which models it has.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tools/client/http_client.h"

namespace transom::route {

class ServerLink {
 public:
  // A thread of its own sends and receives.
  explicit ServerLink(client::HttpUrl url);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  void stop();  // what is under way hears "stopped"
  const client::HttpUrl& url() const { return client_.server(); }
  client::HttpClient& client() { return client_; }
  // Asks /health and /v1/models, for at most so long each. `key`: a client's key, empty: none.
  void look(std::chrono::milliseconds limit, const std::string& key);
  bool answers() const { return answers_; }
  void note_failure() { answers_ = false; }  // until the next look
  // Whether it is known to have the model, or not known what it has.
  bool may_have(const std::string& model) const;
  std::string models() const;  // the list of /v1/models as JSON; empty: not known

  std::atomic<int64_t> active{0};  // requests
  std::atomic<int64_t> requests{0}, failures{0};

 private:
  client::HttpClient client_;
  std::atomic<bool> answers_{false};
  mutable std::mutex mutex_;  // of what follows
  std::set<std::string> names_;
  std::string models_;
  std::thread thread_;
};

}  // namespace transom::route
