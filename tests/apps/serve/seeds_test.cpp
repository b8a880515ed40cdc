// SPDX-License-Identifier: Apache-2.0
// Seeds of the interfaces that write: the same one gives the same text, -1 and none a new text each time.
#include <gtest/gtest.h>

#include <set>

#include "apps/serve/golden_server.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

class Seeds : public testing::Test {
 protected:
  void SetUp() override {
    if (test::has_golden("llama-lm")) server_ = test::start_server({.models = {test::golden_model("llama-lm", "lm")}});
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  // How many different texts four requests get.
  size_t texts_of(const std::string& path, const Json& body) {
    Client client(server_->port());
    std::set<std::string> texts;
    for (int i = 0; i < 4; ++i) {
      const test::Answer answer = client.post(path, dump_json(body));
      EXPECT_EQ(answer.status, 200) << answer.body;
      const Json json = json_of(answer);
      texts.insert(json.contains("response") ? json["response"] : json["choices"][0]["text"]);
    }
    return texts.size();
  }
  std::unique_ptr<serve::Server> server_;
};

TEST_F(Seeds, OfCompletions) {
  Json body{{"model", "lm"}, {"prompt", "Hi"}, {"max_tokens", 12}, {"temperature", 1.8}};
  EXPECT_GT(texts_of("/v1/completions", body), 1u);
  for (const int same : {7, -2}) {
    body["seed"] = same;
    EXPECT_EQ(texts_of("/v1/completions", body), 1u) << same;
  }
  body["seed"] = -1;
  EXPECT_GT(texts_of("/v1/completions", body), 1u);
}

TEST_F(Seeds, OfOllama) {
  Json body{{"model", "lm"},
            {"prompt", "Hi"},
            {"stream", false},
            {"options", {{"num_predict", 12}, {"temperature", 1.8}, {"seed", 7}}}};
  EXPECT_EQ(texts_of("/api/generate", body), 1u);
  body["options"]["seed"] = -1;
  EXPECT_GT(texts_of("/api/generate", body), 1u);
}

}  // namespace
}  // namespace transom
