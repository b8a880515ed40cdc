// SPDX-License-Identifier: Apache-2.0
// `transom serve`: models behind HTTP. One thread for all connections, a few that parse and tokenise, one a model that
// computes, one a generating model that hands out what it writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/serve/api/options.h"

namespace transom::serve {

// Sums since the start, and what is the case now.
struct ServerStatistics {
  int64_t connections = 0, active = 0, waiting = 0, running = 0;
  int64_t requests = 0, prompt_tokens = 0, generated_tokens = 0;
};

class Server {
 public:
  explicit Server(ServeOptions options);
  ~Server();
  // Opens the port; /health answers 503 until load() is done. Throws Error.
  void start();
  // Loads the models, one after the other; `loaded` is called before each with its number and name.
  void load(const std::function<void(size_t number, const std::string& name)>& loading = {});
  uint16_t port() const;
  // Answers a request that comes over no connection; start() is not needed for it. After load().
  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder);
  // New requests get 503 from now on; those that are in work go on.
  void drain();
  // True when no request is in work, false when `time` is over.
  bool wait_until_idle(std::chrono::milliseconds time);
  // Ends everything at once: what is in work is answered with 503 or its stream ends.
  void stop();
  ServerStatistics statistics() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace transom::serve
