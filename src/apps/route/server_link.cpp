// SPDX-License-Identifier: Apache-2.0
#include "apps/route/server_link.h"

#include "base/error.h"
#include "base/json/json.h"

namespace transom::route {

ServerLink::ServerLink(client::HttpUrl url) : client_(std::move(url), {.connect_timeout = std::chrono::seconds(5)}) {
  client_.keep_running();
  thread_ = std::thread([this] { client_.run(); });
}

ServerLink::~ServerLink() { stop(); }

void ServerLink::stop() {
  if (!thread_.joinable()) return;
  client_.post([this] { client_.stop(); });
  thread_.join();
}

void ServerLink::look(std::chrono::milliseconds limit, const std::string& key) {
  constexpr size_t kMostBytes = 16 << 20;
  const client::ClientOptions options{.connect_timeout = limit, .request_timeout = limit};
  try {
    if (client::fetch(url(), {.path = "/health"}, options, kMostBytes).status != 200) {
      answers_ = false;
      return;
    }
    client::ClientRequest list{.path = "/v1/models"};
    if (!key.empty()) list.headers.emplace_back("authorization", "Bearer " + key);
    const client::ClientReply reply = client::fetch(url(), std::move(list), options, kMostBytes);
    std::set<std::string> names;
    if (reply.status == 200) {
      const Json json = parse_json(reply.body, "/v1/models");
      if (json.contains("data") && json["data"].is_array())
        for (const Json& each : json["data"])
          if (each.is_object() && each.contains("id") && each["id"].is_string())
            names.insert(each["id"].get<std::string>());
    }
    const std::lock_guard lock(mutex_);
    models_ = names.empty() ? "" : reply.body;
    names_ = std::move(names);
    answers_ = true;
  } catch (const Error&) {  // it is not there, or no server of models
    answers_ = false;
  }
}

bool ServerLink::may_have(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  return names_.empty() || names_.contains(model);
}

std::string ServerLink::models() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

}  // namespace transom::route
