// SPDX-License-Identifier: Apache-2.0
// What answers say of single tokens, through the interfaces: the same numbers everywhere.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>

#include "apps/serve/golden_server.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

class TokenDetails : public testing::Test {
 protected:
  TokenDetails() {
    test::save_word_model(folder_, test::kWordGpt2, "",
                          R"({"chat_template": "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"})");
    server_ = test::start_server({.models = {{"words", folder_.string()}}});
  }
  Answer ask(const std::string& path, Json body, const Json& more = Json::object()) const {
    body.update(more);
    return Client(server_->port()).post(path, dump_json(body));
  }
  Json answer(const std::string& path, const Json& body, const Json& more = Json::object()) const {
    const Answer answer = ask(path, body, more);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return json_of(answer);
  }
  static Json chat() {
    return {{"messages", {{{"role", "user"}, {"content", "w1 w2 w3"}}}}, {"max_tokens", 4}, {"temperature", 0}};
  }
  static Json completion() { return {{"prompt", "w1 w2 w3"}, {"max_tokens", 4}, {"temperature", 0}}; }
  std::vector<Json> events(const std::string& path, const Json& body, Json more) const {
    more["stream"] = true;
    const Answer answer = ask(path, body, more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<Json> events;
    for (const std::string& event : test::events_of(answer.body))
      if (event != "[DONE]") events.push_back(parse_json(event, "event"));
    return events;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

// tests/wild/serve: 09-fields-read-and-dropped. The form is vLLM's, the numbers are those of `echo`.
TEST_F(TokenDetails, OfThePromptAreThoseOfItsEcho) {
  const Json echo =
      answer("/v1/completions", completion(), {{"echo", true}, {"logprobs", 2}})["choices"][0]["logprobs"];
  const Json whole = answer("/v1/completions", completion(), {{"prompt_logprobs", 2}, {"return_token_ids", true}});
  const Json choice = whole["choices"][0];
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3u);
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_EQ(choice["prompt_token_ids"], Json({1, 2, 3}));
  for (size_t i = 1; i < 3; ++i) {
    const Json at = choice["prompt_logprobs"][i];
    const Json own = at[std::to_string(i + 1)];
    EXPECT_EQ(own["logprob"], echo["token_logprobs"][i]);
    EXPECT_EQ(own["decoded_token"], "w" + std::to_string(i + 1));
    std::set<int64_t> ranks;
    for (const Json& each : at) {
      if (!each["rank"].is_null()) ranks.insert(each["rank"].get<int64_t>());
      EXPECT_EQ(each["logprob"], echo["top_logprobs"][i][each["decoded_token"].get<std::string>()]);
    }
    EXPECT_EQ(ranks, (std::set<int64_t>{1, 2}));
  }
  // A chat has them beside its choices.
  const Json of_chat = answer("/v1/chat/completions", chat(), {{"prompt_logprobs", 2}, {"return_token_ids", true}});
  EXPECT_EQ(of_chat["prompt_logprobs"], choice["prompt_logprobs"]);
  EXPECT_EQ(of_chat["prompt_token_ids"], choice["prompt_token_ids"]);
  EXPECT_EQ(of_chat["choices"][0]["token_ids"], choice["token_ids"]);
  EXPECT_EQ(choice["token_ids"].size(), 4u);
  // More for the prompt than for the echo of it, and a prompt alone.
  const Json both = answer("/v1/completions", completion(), {{"echo", true}, {"logprobs", 2}, {"prompt_logprobs", 4}});
  EXPECT_EQ(both["choices"][0]["logprobs"], echo);
  EXPECT_GE(both["choices"][0]["prompt_logprobs"][1].size(), 4u);
  const Json alone = answer("/v1/completions", completion(), {{"max_tokens", 0}, {"prompt_logprobs", 2}});
  EXPECT_EQ(alone["choices"][0]["prompt_logprobs"], choice["prompt_logprobs"]);
  EXPECT_EQ(alone["choices"][0]["text"], "");
  EXPECT_EQ(ask("/v1/completions", completion(), {{"prompt_logprobs", 2}, {"stream", true}}).status, 400);
}

TEST_F(TokenDetails, OfStreamsAreThoseOfWholeAnswers) {
  for (const auto& [path, body] :
       {std::pair{"/v1/completions", completion()}, std::pair{"/v1/chat/completions", chat()}}) {
    const Json whole = answer(path, body, {{"return_token_ids", true}, {"n", 2}, {"seed", 3}, {"temperature", 1}});
    Json ids[2] = {Json::array(), Json::array()};
    Json prompt;
    int64_t before = 0, last = 0;
    for (const Json& event :
         events(path, body,
                {{"return_token_ids", true},
                 {"n", 2},
                 {"seed", 3},
                 {"temperature", 1},
                 {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}})) {
      ASSERT_TRUE(event["usage"].is_object()) << dump_json(event);
      last = event["usage"]["completion_tokens"].get<int64_t>();
      EXPECT_GE(last, before);
      before = last;
      EXPECT_EQ(event["usage"]["prompt_tokens"], 3);
      for (const Json* from : {&event, event["choices"].empty() ? &event : &event["choices"][0]})
        if (from->contains("prompt_token_ids")) prompt = (*from)["prompt_token_ids"];
      for (const Json& choice : event["choices"])
        for (const Json& id : choice["token_ids"]) ids[choice["index"].get<size_t>()].push_back(id);
    }
    EXPECT_EQ(last, whole["usage"]["completion_tokens"]);
    EXPECT_EQ(prompt, Json({1, 2, 3}));
    for (size_t i : {0, 1}) EXPECT_EQ(ids[i], whole["choices"][i]["token_ids"]) << path;
    EXPECT_EQ(ask(path, body, {{"stream", true}, {"stream_options", {{"continuous_usage_stats", true}}}}).status, 400);
  }
}

TEST_F(TokenDetails, AreTheSameForOllamaAndResponses) {
  const Json expected = answer("/v1/chat/completions", chat(),
                               {{"logprobs", true}, {"top_logprobs", 2}})["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(expected.size(), 4u);
  const Json options{{"temperature", 0}, {"num_predict", 4}};
  const Json more{{"model", "words"}, {"logprobs", true}, {"top_logprobs", 2}, {"options", options}};
  Json chat_of_ollama = chat();
  chat_of_ollama.erase("max_tokens"), chat_of_ollama.erase("temperature");
  for (const auto& [path, body] :
       {std::pair{"/api/chat", chat_of_ollama}, std::pair{"/api/generate", Json{{"prompt", "w1 w2 w3"}}}}) {
    Json whole = more;
    whole["stream"] = false;
    EXPECT_EQ(answer(path, body, whole)["logprobs"], expected) << path;
    Json streamed = Json::array();
    std::istringstream lines(ask(path, body, more).body);
    for (std::string line; std::getline(lines, line);)
      for (const Json& each : parse_json(line, "line").value("logprobs", Json::array())) streamed.push_back(each);
    EXPECT_EQ(streamed, expected) << path;
  }
  EXPECT_EQ(ask("/api/chat", chat_of_ollama, {{"model", "words"}, {"top_logprobs", 2}}).status, 400);

  const Json response{{"input", "w1 w2 w3"}, {"max_output_tokens", 4}, {"temperature", 0}, {"top_logprobs", 2}};
  const Json content = answer("/v1/responses", response)["output"][0]["content"][0];
  EXPECT_EQ(content["logprobs"], expected);
  Json deltas = Json::array();
  const Answer stream = ask("/v1/responses", response, {{"stream", true}});
  std::istringstream lines(stream.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ")) continue;
    const Json event = parse_json(line.substr(6), "event");
    if (event["type"] == "response.output_text.delta")
      for (const Json& each : event["logprobs"]) deltas.push_back(each);
    if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["logprobs"], expected);
    }
  }
  EXPECT_EQ(deltas, expected);
  const Json included =
      answer("/v1/responses", response, {{"top_logprobs", 0}, {"include", {"message.output_text.logprobs"}}});
  EXPECT_EQ(included["output"][0]["content"][0]["logprobs"].size(), 4u);
  EXPECT_EQ(ask("/v1/responses", response, {{"include", {"message.pictures"}}}).status, 400);
  EXPECT_EQ(answer("/v1/responses", response, {{"metadata", {{"a", "b"}}}})["metadata"], Json({{"a", "b"}}));
}

// A prompt that is far too long is refused by its beginning.
TEST_F(TokenDetails, PromptsThatAreFarTooLongAreRefusedByTheirBeginning) {
  std::string text = "w1";
  while (text.size() < (6u << 20)) text += " w2 w3 w4 w5 w6 w7 w8 w9";
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [path, body, param] :
       {std::tuple{"/v1/completions", Json{{"prompt", text}}, "prompt"},
        std::tuple{"/v1/chat/completions", Json{{"messages", {{{"role", "user"}, {"content", text}}}}}, "messages"}}) {
    const Answer refused = ask(path, body);
    EXPECT_EQ(refused.status, 400);
    const Json error = json_of(refused)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], param);
    EXPECT_NE(error["message"].get<std::string>().find("the first "), std::string::npos) << refused.body;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace transom
