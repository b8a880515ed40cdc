// SPDX-License-Identifier: Apache-2.0
// A server that is started anew finds the beginnings of texts that the one before has read.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

class KeptOverRestarts : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
    for (int i = 0; i < 30; ++i) prompt_ += i % 3 ? " sat" : " on the mat";
  }
  serve::ServeOptions options(std::vector<std::string> keys) const {
    serve::ServeOptions options{.models = {test::golden_model("llama-lm", "chat")}};
    options.api_keys = std::move(keys);
    options.prefix_cache_directory = (folder_ / "prefixes").string();
    return options;
  }
  // The text, and how many tokens of the prompt were known.
  std::pair<std::string, int64_t> ask(serve::Server& server, const std::string& key) const {
    const Json body{{"messages", {{{"role", "user"}, {"content", prompt_}}}}, {"max_tokens", 4}, {"temperature", 0}};
    const Answer answer =
        Client(server.port()).post("/v1/chat/completions", dump_json(body), "Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(answer.status, 200) << answer.body;
    const Json json = json_of(answer);
    return {json["choices"][0]["message"]["content"].get<std::string>(),
            json["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>()};
  }
  test::TemporaryFolder folder_;
  std::string prompt_ = "the cat";
};

TEST_F(KeptOverRestarts, TheAnswerIsTheSame) {
  std::pair<std::string, int64_t> before;
  {
    const auto server = test::start_server(options({"a", "b"}));
    before = ask(*server, "a");
    EXPECT_EQ(before.second, 0);
  }
  // Another order of keys: those of a text belong to a key, not to its number.
  const auto server = test::start_server(options({"b", "a", "c"}));
  EXPECT_EQ(ask(*server, "b").second, 0);
  const auto after = ask(*server, "a");
  EXPECT_GT(after.second, 0);
  EXPECT_EQ(after.first, before.first);
  const Answer metrics = Client(server->port()).get("/metrics", "Authorization: Bearer a\r\n");
  EXPECT_NE(metrics.body.find("transom_prefix_cache_disk_hits_total{engine=\"0\",model_name=\"chat\"} " +
                              std::to_string(after.second)),
            std::string::npos)
      << metrics.body;
}

}  // namespace
}  // namespace transom
