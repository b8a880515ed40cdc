// SPDX-License-Identifier: Apache-2.0
// A server with the golden models, on a free port.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/serve/http_client.h"
#include "apps/serve/server/server.h"
#include "base/json/json.h"
#include "support/golden.h"

namespace transom::test {

// They are part of the tree: a model that is not there is a failure.
inline bool has_golden(const std::string& name) {
  const bool found = std::filesystem::exists(golden_folder() / name / "model" / "config.json");
  EXPECT_TRUE(found) << "no golden model " << name << " in " << golden_folder();
  return found;
}

inline serve::ModelSource golden_model(const std::string& name, const std::string& as) {
  return {as, (golden_folder() / name / "model").lexically_normal().string()};
}

// The names are those of clients: "embed" is golden's mpnet-model ...
inline std::unique_ptr<serve::Server> start_server(serve::ServeOptions options) {
  options.http.port = 0;
  options.version = "test";
  auto server = std::make_unique<serve::Server>(options);
  server->start();
  server->load();
  return server;
}

inline Json json_of(const Answer& answer) { return parse_json(answer.body, "answer"); }

// The data of server-sent events, in order.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string event = body.substr(at, end - at);
    if (event.starts_with("data: ")) events.push_back(event.substr(6));
    at = end + 2;
  }
  return events;
}

}  // namespace transom::test
