// SPDX-License-Identifier: Apache-2.0
// Ollama's paths, and /pooling, over sockets.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::golden_model;
using test::json_of;

class Ollama : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("llama-lm") || !test::has_golden("mpnet-model")) return;
    server_ = test::start_server({.models = {golden_model("llama-lm", "chat"), golden_model("mpnet-model", "embed")}})
                  .release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Answer post(const std::string& path, const Json& body) {
    Client client(server_->port());
    return client.post(path, dump_json(body));
  }
  static std::vector<Json> lines(const std::string& path, const Json& body) {
    const Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("content-type"), "application/x-ndjson");
    std::vector<Json> list;
    for (size_t at = 0; at < answer.body.size();) {
      const size_t end = answer.body.find('\n', at);
      list.push_back(parse_json(answer.body.substr(at, end - at), "line"));
      at = end + 1;
    }
    return list;
  }
  static Json hello(const Json& more = Json::object()) {
    Json body{{"model", "chat:latest"},
              {"messages", Json::array({{{"role", "user"}, {"content", "hello"}}})},
              {"options", {{"num_predict", 12}, {"temperature", 0}}}};
    body.update(more);
    return body;
  }
  static inline serve::Server* server_ = nullptr;
};

TEST_F(Ollama, ChatStreamsLines) {
  const Json whole = json_of(post("/api/chat", hello({{"stream", false}})));
  EXPECT_EQ(whole["model"], "chat:latest");
  EXPECT_EQ(whole["message"]["role"], "assistant");
  EXPECT_TRUE(whole["done"]);
  EXPECT_EQ(whole["done_reason"], "length");
  EXPECT_EQ(whole["eval_count"], 12);
  EXPECT_GT(whole["total_duration"].get<int64_t>(), 0);
  const std::vector<Json> stream = lines("/api/chat", hello());
  std::string text;
  for (size_t i = 0; i < stream.size(); ++i) {
    text += stream[i]["message"]["content"].get<std::string>();
    EXPECT_EQ(stream[i]["done"], i + 1 == stream.size());
  }
  EXPECT_EQ(text, whole["message"]["content"]);
  EXPECT_EQ(stream.back()["prompt_eval_count"], whole["prompt_eval_count"]);
  // The same question by OpenAI's interface has the same answer.
  const Json openai =
      json_of(post("/v1/chat/completions",
                   {{"model", "chat"}, {"messages", hello()["messages"]}, {"max_tokens", 12}, {"temperature", 0}}));
  EXPECT_EQ(openai["choices"][0]["message"]["content"], whole["message"]["content"]);
}

TEST_F(Ollama, GenerateGoesOnFromItsContext) {
  const Json body{{"model", "chat"},
                  {"prompt", "one two"},
                  {"raw", true},
                  {"stream", false},
                  {"options", {{"num_predict", 5}, {"temperature", 0}}}};
  const Json first = json_of(post("/api/generate", body));
  EXPECT_TRUE(first["response"].is_string());
  EXPECT_EQ(first["context"].size(), first["prompt_eval_count"].get<size_t>() + first["eval_count"].get<size_t>());
  Json second = body;
  second["context"] = first["context"];
  second["prompt"] = " three";
  EXPECT_GT(json_of(post("/api/generate", second))["prompt_eval_count"].get<int64_t>(),
            first["prompt_eval_count"].get<int64_t>());
  const std::vector<Json> stream =
      lines("/api/generate", {{"model", "chat"}, {"prompt", "a"}, {"options", {{"num_predict", 3}}}});
  EXPECT_TRUE(stream.back()["done"]);
  EXPECT_EQ(json_of(post("/api/generate", {{"model", "chat"}}))["done_reason"], "load");
  EXPECT_EQ(json_of(post("/api/chat", {{"model", "chat"}, {"messages", Json::array()}}))["done_reason"], "load");
}

TEST_F(Ollama, FormatsAreKept) {
  const Json schema{{"type", "object"},
                    {"properties", {{"a", {{"type", "boolean"}}}}},
                    {"required", {"a"}},
                    {"additionalProperties", false}};
  const Json answer = json_of(
      post("/api/chat",
           hello({{"stream", false}, {"format", schema}, {"options", {{"num_predict", 40}, {"temperature", 0}}}})));
  const Json written = Json::parse(answer["message"]["content"].get<std::string>(), nullptr, false);
  ASSERT_TRUE(written.is_object()) << answer.dump();
  EXPECT_TRUE(written["a"].is_boolean());
}

TEST_F(Ollama, ListsModels) {
  Client client(server_->port());
  const Json tags = json_of(client.get("/api/tags"));
  ASSERT_EQ(tags["models"].size(), 2u);
  EXPECT_EQ(tags["models"][0]["name"], "chat");
  EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(tags["models"][0]["details"]["family"], "llama");
  EXPECT_EQ(json_of(client.get("/api/ps"))["models"].size(), 2u);
  EXPECT_EQ(json_of(client.get("/api/version"))["version"], "test");
  EXPECT_EQ(json_of(post("/api/show", {{"model", "chat"}}))["capabilities"][0], "completion");
  EXPECT_EQ(json_of(post("/api/show", {{"name", "embed"}}))["capabilities"][0], "embedding");
  EXPECT_EQ(client.post("/api/pull", "{}").status, 404);
}

TEST_F(Ollama, GivesVectors) {
  const Json many = json_of(post("/api/embed", {{"model", "embed"}, {"input", {"a cat", "rain"}}}));
  ASSERT_EQ(many["embeddings"].size(), 2u);
  double square = 0;
  for (const Json& each : many["embeddings"][0]) square += each.get<double>() * each.get<double>();
  EXPECT_NEAR(square, 1, 1e-5);
  EXPECT_EQ(json_of(post("/api/embed", {{"model", "embed"}, {"input", "a cat"}}))["embeddings"][0],
            many["embeddings"][0]);
  EXPECT_TRUE(json_of(post("/api/embeddings", {{"model", "embed"}, {"prompt", "a"}}))["embedding"].is_array());
  const Json pooled = json_of(post("/pooling", {{"model", "embed"}, {"input", "a cat"}, {"normalize", true}}));
  EXPECT_EQ(pooled["data"][0]["object"], "pooling");
  EXPECT_EQ(pooled["data"][0]["data"], many["embeddings"][0]);
}

TEST_F(Ollama, RefusesWithOneString) {
  struct Case {
    const char* path;
    Json body;
    int status;
  };
  for (const Case& each :
       {Case{"/api/chat", {{"messages", Json::array()}}, 400}, Case{"/api/chat", {{"model", "other"}}, 404},
        Case{"/api/chat", {{"model", "embed"}}, 400},
        Case{"/api/generate", {{"model", "chat"}, {"prompt", "a"}, {"images", {"x"}}}, 400},
        Case{"/api/generate", {{"model", "chat"}, {"prompt", "a"}, {"suffix", "x"}}, 400},
        Case{"/api/generate", {{"model", "chat"}, {"prompt", "a"}, {"context", {-1}}}, 400},
        Case{"/api/generate", {{"model", "chat"}, {"prompt", "a"}, {"raw", true}, {"system", "be brief"}}, 400},
        Case{"/api/chat", hello({{"options", {{"top_p", 3}}}}), 400}, Case{"/api/chat", hello({{"format", 3}}), 400},
        Case{"/api/pull", {{"model", "x"}}, 404}, Case{"/api/tags", {{"model", "x"}}, 405},
        Case{"/api/show", {{"model", "x"}}, 404}, Case{"/api/embed", {{"model", "embed"}}, 400}}) {
    const Answer answer = post(each.path, each.body);
    EXPECT_EQ(answer.status, each.status) << each.path << dump_json(each.body) << answer.body;
    EXPECT_TRUE(json_of(answer)["error"].is_string()) << answer.body;
  }
}

}  // namespace
}  // namespace transom
