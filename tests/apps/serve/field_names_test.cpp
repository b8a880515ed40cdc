// SPDX-License-Identifier: Apache-2.0
// What requests name: models by a name that stands for the only one, and fields in errors as the interface has them.
#include <gtest/gtest.h>

#include "apps/serve/generation/generation_request.h"
#include "apps/serve/golden_server.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

class FieldNamesOverHttp : public testing::Test {
 protected:
  FieldNamesOverHttp() {
    test::save_word_model(folder_, test::kWordGpt2);
    serve::ServeOptions options{.models = {{"words", folder_.string()}}};
    options.max_sequences = 4;
    server_ = test::start_server(options);
  }
  Json post(const std::string& path, const Json& body, int status = 200) {
    Client client(server_->port());
    const Answer answer = client.post(path, dump_json(body));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json_of(answer);
  }
  static Json tokens(int64_t count) {
    Json list = Json::array();
    for (int64_t i = 0; i < count; ++i) list.push_back(i % 11);
    return list;
  }
  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(FieldNamesOverHttp, TheOnlyModelHasTheNamesOfPlaceholders) {
  for (const char* name : {"tgi", "dummy", "default", "text-embeddings-inference"})
    EXPECT_EQ(post("/v1/completions", {{"model", name}, {"prompt", "w1"}, {"max_tokens", 1}})["model"], "words");
  EXPECT_EQ(post("/v1/completions", {{"model", "gpt-4"}, {"prompt", "w1"}}, 404)["error"]["param"], "model");
  post("/models/other", {{"inputs", "w1"}}, 404);
  post("/models/tgi", {{"inputs", "w1"}});
  const auto two = test::start_server({.models = {{"a", folder_.string()}, {"b", folder_.string()}}});
  // Of several, the one that is named.
  EXPECT_EQ(Client(two->port()).post("/generate", R"({"model":"b","inputs":"w1"})").status, 200);
  EXPECT_NE(Client(two->port())
                .get("/metrics")
                .body.find("request_success_total{engine=\"0\",model_name=\"b\",finished_reason=\"length\"} 1"),
            std::string::npos);
  EXPECT_EQ(Client(two->port()).post("/generate", R"({"model":"c","inputs":"w1"})").status, 404);
  EXPECT_EQ(Client(two->port()).post("/v1/completions", R"({"model":"tgi","prompt":"w1"})").status, 404);
}

// The context has 40 tokens.
TEST_F(FieldNamesOverHttp, ErrorsNameWhatTheClientSent) {
  const Json chat{{{"role", "user"}, {"content", "w1"}}};
  struct Case {
    const char* path;
    Json body;
    const char* param;
  };
  for (const Case& each :
       {Case{"/v1/completions", {{"prompt", tokens(40)}}, "prompt"},
        Case{"/v1/completions", {{"prompt", tokens(30)}, {"max_tokens", 11}}, "max_tokens"},
        Case{"/v1/completions", {{"prompt", tokens(41)}, {"max_tokens", 0}, {"echo", true}}, "prompt"},
        Case{"/v1/completions", {{"prompt", "w1"}, {"n", 5}}, "n"},
        Case{"/v1/completions", {{"prompt", "w1"}, {"use_beam_search", true}, {"best_of", 5}}, "best_of"},
        Case{"/v1/completions",
             {{"prompt", "w1"}, {"use_beam_search", true}, {"n", 2}, {"echo", true}, {"max_tokens", 0}},
             "max_tokens"},
        Case{"/v1/completions", {{"prompt", "w1"}, {"max_tokens", 4}, {"min_tokens", 5}}, "min_tokens"},
        Case{"/v1/completions", {{"prompt", "w1"}, {"min_tokens", 17}}, "min_tokens"},
        Case{"/v1/chat/completions", {{"messages", chat}, {"min_tokens", 40}}, "min_tokens"},
        Case{"/v1/chat/completions", {{"messages", chat}, {"max_tokens", 40}}, "max_tokens"},
        Case{"/v1/chat/completions", {{"messages", chat}, {"max_completion_tokens", 40}}, "max_completion_tokens"},
        Case{"/v1/responses", {{"input", "w1"}, {"max_output_tokens", 40}}, "max_output_tokens"},
        Case{"/v1/responses", {{"input", "w1"}, {"conversation", "c"}}, "conversation"},
        Case{"/v1/responses", {{"input", {{{"role", "king"}, {"content", "w1"}}}}}, "input[0].role"},
        Case{"/v1/responses",
             {{"instructions", "w2"}, {"input", {chat[0], {{"role", "user"}, {"content", 5}}}}},
             "input[1].content"},
        Case{"/v1/responses",
             {{"input", "w1"}, {"text", {{"format", {{"type", "json_schema"}, {"schema", {{"type", 5}}}}}}}},
             "text.format.schema"}}) {
    const Json error = post(each.path, each.body, 400)["error"];
    EXPECT_EQ(error["param"], each.param) << dump_json(error);
    const std::string message = error["message"];
    EXPECT_NE(message.find(each.param), std::string::npos) << message;
    EXPECT_EQ(message.find("num_return_sequences"), std::string::npos) << message;
  }
  const auto names = [&](const char* path, const Json& body, const char* field) {
    const Json answer = post(path, body, 400);
    EXPECT_NE(answer["error"].get<std::string>().find(field), std::string::npos) << dump_json(answer);
  };
  names("/generate", {{"inputs", "w1"}, {"parameters", {{"max_new_tokens", 40}}}}, "parameters.max_new_tokens");
  names("/generate", {{"inputs", "w1"}, {"parameters", {{"grammar", {{"type", "json"}}}}}}, "parameters.grammar.value");
  names("/api/generate", {{"model", "words"}, {"prompt", "w1"}, {"raw", true}, {"options", {{"num_predict", 40}}}},
        "options.num_predict");
}

TEST_F(FieldNamesOverHttp, TheLeastNumberOfTokensIsBoundedByTheMost) {
  const auto message = [&](const Json& more) {
    Json body{{"prompt", "w1"}};
    body.update(more);
    return post("/v1/completions", body, 400)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message({{"max_tokens", 4}, {"min_tokens", 5}}), "min_tokens: expected at most 4 (max_tokens), found 5");
  EXPECT_EQ(message({{"min_tokens", 20}}),
            "min_tokens: expected at most 16 (max_tokens, which was not given), found 20");
  post("/v1/completions", {{"prompt", "w1"}, {"max_tokens", 4}, {"min_tokens", 4}});
  const std::string metrics = Client(server_->port()).get("/metrics").body;
  EXPECT_NE(metrics.find("vllm:request_time_per_output_token_seconds_count{engine=\"0\",model_name=\"words\"} 1\n"),
            std::string::npos);
}

TEST_F(FieldNamesOverHttp, OfTheEngineBecomeThoseOfTheInterface) {
  const serve::FieldNames names{.prompt = "inputs", .tokens = "parameters.max_new_tokens"};
  const auto error = [&](const char* text) { return serve::refused_by_engine(Error(ErrorKind::kInput, text), names); };
  EXPECT_EQ(error("prompt: 5 tokens").param(), "inputs");
  EXPECT_STREQ(error("max_new_tokens: too many").what(), "parameters.max_new_tokens: too many");
  EXPECT_STREQ(error("num_return_sequences = 8: at most 4").what(), "n = 8: at most 4");
  EXPECT_EQ(error("top_k: expected a number").param(), "top_k");
  EXPECT_EQ(error("This model does not").param(), "");
}

// A request that could never be taken would be asked for ever (tests/wild/serve: 14-more-prompts-than-may-wait).
TEST_F(FieldNamesOverHttp, MorePromptsThanMayWaitAreTakenTogether) {
  serve::ServeOptions options{.models = {{"words", folder_.string()}}};
  options.max_waiting = 2;
  const auto server = test::start_server(options);
  const Answer answer =
      Client(server->port()).post("/v1/completions", R"({"prompt":["w1","w2","w3","w4","w5","w6"],"max_tokens":1})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json_of(answer)["choices"].size(), 6u);
  EXPECT_EQ(Client(server->port()).post("/v1/completions", R"({"prompt":"w1","max_tokens":1})").status, 200);
}

// Prompts that fill the context are scored; so are those with something behind them, by the same numbers.
TEST_F(FieldNamesOverHttp, PromptsOfFullLengthAreEchoedWithLogprobs) {
  const auto echo = [&](int64_t count, int64_t more) {
    return post("/v1/completions",
                {{"prompt", tokens(count)}, {"max_tokens", more}, {"logprobs", 2}, {"echo", true}, {"temperature", 0}});
  };
  const Json full = echo(40, 0), shorter = echo(30, 1);
  EXPECT_EQ(full["usage"]["completion_tokens"], 0);
  EXPECT_EQ(full["choices"][0]["finish_reason"], "length");
  const Json all = full["choices"][0]["logprobs"], some = shorter["choices"][0]["logprobs"];
  ASSERT_EQ(all["tokens"].size(), 40u);
  ASSERT_EQ(some["tokens"].size(), 31u);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(all["token_logprobs"][i].dump(), some["token_logprobs"][i].dump());
    EXPECT_EQ(all["top_logprobs"][i].dump(), some["top_logprobs"][i].dump());
  }
  for (const Json& value : all["token_logprobs"]) EXPECT_LE(value.dump().size(), 13u) << value;
  const Json silent = post("/v1/completions", {{"prompt", tokens(40)}, {"max_tokens", 0}, {"echo", true}});
  EXPECT_EQ(silent["choices"][0]["text"], full["choices"][0]["text"]);
  EXPECT_TRUE(silent["choices"][0]["logprobs"].is_null());
}

}  // namespace
}  // namespace transom
