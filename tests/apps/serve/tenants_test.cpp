// SPDX-License-Identifier: Apache-2.0
// Clients with keys of their own, and what they learn of each other.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

// The answer says how many tokens of the prompt were in the cache: with another's key that would tell whether the other
// has sent the same words.
TEST(KeysOverHttp, FindNothingOfEachOthersPrompts) {
  if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
  std::mutex mutex;
  std::vector<std::string> lines;
  serve::ServeOptions options{.models = {test::golden_model("llama-lm", "chat")}};
  options.api_keys = {"first", "second"};
  options.log_request = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  const auto server = test::start_server(options);
  std::string prompt = "the cat";
  for (int i = 0; i < 30; ++i) prompt += i % 3 ? " sat" : " on the mat";
  const auto cached = [&](const std::string& key, const Json& more = Json::object()) {
    Json body{{"messages", {{{"role", "user"}, {"content", prompt}}}}, {"max_tokens", 1}, {"temperature", 0}};
    body.update(more);
    const Answer answer =
        Client(server->port()).post("/v1/chat/completions", dump_json(body), "Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer)["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
  };
  EXPECT_EQ(cached("first"), 0);
  EXPECT_GT(cached("first"), 0);
  EXPECT_EQ(cached("second"), 0);
  EXPECT_GT(cached("second"), 0);
  EXPECT_EQ(cached("first", {{"cache_salt", "mine"}}), 0);
  EXPECT_GT(cached("first", {{"cache_salt", "mine"}}), 0);
  const std::string header = "Authorization: Bearer first\r\n";
  EXPECT_EQ(Client(server->port()).post("/v1/completions", R"({"prompt":"a","cache_salt":7})", header).status, 400);
  const Answer metrics = Client(server->port()).get("/metrics", header);
  EXPECT_NE(metrics.body.find("vllm:request_queue_time_seconds_count{engine=\"0\",model_name=\"chat\"} 6"),
            std::string::npos)
      << metrics.body;
  const std::lock_guard lock(mutex);
  int with_queue = 0;
  for (const std::string& line : lines) with_queue += Json::parse(line).contains("queue_ms");
  EXPECT_EQ(with_queue, 6);
}

}  // namespace
}  // namespace transom
