// SPDX-License-Identifier: Apache-2.0
// Thoughts in the answers of every interface.
#include <gtest/gtest.h>

#include <map>

#include "apps/serve/golden_server.h"
#include "support/scripted_model.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

const std::map<std::string, std::string> kTexts{
    {"thought", "<think>\nA greeting.\n</think>\n\nHello!"},
    {"plain", "No thoughts."},
    {"unended", "<think>I wonder and wonder"},
    {"call", "<think>I call <tool_call>.</think><tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>"},
};

class ReasoningContent : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new test::ScriptedModel({"</s>"}, {"<think>", "</think>"}, kTexts,
                                     "{% if enable_thinking %}{% endif %}{{ messages[-1]['content'] }}");
    server_ = test::start_server({.models = {{"script", model_->folder()}}}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete model_;
  }
  static Json post(const std::string& path, const Json& body, int status = 200) {
    const Answer answer = Client(server_->port()).post(path, dump_json(body));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json_of(answer);
  }
  static Json chat_of(const std::string& text, const Json& more = Json::object()) {
    Json body{
        {"messages", {{{"role", "user"}, {"content", model_->prompt(text)}}}}, {"temperature", 0}, {"max_tokens", 200}};
    body.update(more);
    return body;
  }
  // {reasoning_content, content} of a chat and of its stream, which is the same.
  static std::pair<std::string, std::string> chat(const std::string& text, const Json& more = Json::object()) {
    const Json message = post("/v1/chat/completions", chat_of(text, more))["choices"][0]["message"];
    const std::pair whole(message.value("reasoning_content", ""),
                          message["content"].is_null() ? "" : message["content"].get<std::string>());
    Json streaming = chat_of(text, more);
    streaming["stream"] = true;
    std::pair<std::string, std::string> streamed;
    for (const std::string& event :
         test::events_of(Client(server_->port()).post("/v1/chat/completions", dump_json(streaming)).body)) {
      if (event == "[DONE]") continue;
      const Json delta = parse_json(event, "event")["choices"][0]["delta"];
      streamed.first += delta.value("reasoning_content", "");
      streamed.second += delta.value("content", "");
    }
    EXPECT_EQ(streamed, whole);
    return whole;
  }
  static inline test::ScriptedModel* model_ = nullptr;
  static inline serve::Server* server_ = nullptr;
};

TEST_F(ReasoningContent, StandsBesideTheContentOfChats) {
  EXPECT_EQ(chat("thought"), std::pair(std::string("A greeting."), std::string("Hello!")));
  EXPECT_EQ(chat("plain"), std::pair(std::string(), std::string("No thoughts.")));
  EXPECT_EQ(chat("thought", {{"include_reasoning", false}}), std::pair(std::string(), std::string("Hello!")));
  EXPECT_EQ(chat("unended"), std::pair(std::string("I wonder and wonder"), std::string()));
  const Json usage = post("/v1/chat/completions", chat_of("thought"))["usage"];
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 11);
}

TEST_F(ReasoningContent, EndsByItsBudget) {
  EXPECT_EQ(chat("unended", {{"thinking_token_budget", 8}}),
            std::pair(std::string("I wonder"), std::string("and wonder")));
  EXPECT_EQ(chat("plain", {{"thinking_token_budget", 3}}).second, "No thoughts.");
  // Forms of answers hold behind the thoughts, where these are asked for.
  const Json choice{{"structured_outputs", {{"choice", {"yes", "no"}}}}, {"think", true}, {"thinking_token_budget", 8}};
  const auto [thoughts, content] = chat("unended", choice);
  EXPECT_EQ(thoughts, "I wonder");
  EXPECT_TRUE(content == "yes" || content == "no") << content;
}

TEST_F(ReasoningContent, HasCallsBehindIt) {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "get_time"}}}}});
  const Json message = post("/v1/chat/completions", chat_of("call", {{"tools", tools}}))["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "I call <tool_call>.");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "get_time");
}

TEST_F(ReasoningContent, IsAnItemOfResponses) {
  const Json body{{"input", model_->prompt("thought")}, {"temperature", 0}, {"max_output_tokens", 200}};
  const Json output = post("/v1/responses", body)["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "A greeting.");
  EXPECT_EQ(output[1]["content"][0]["text"], "Hello!");
  Json streaming = body;
  streaming["stream"] = true;
  const std::string events = Client(server_->port()).post("/v1/responses", dump_json(streaming)).body;
  EXPECT_NE(events.find("event: response.reasoning_text.delta"), std::string::npos);
  EXPECT_NE(events.find("\"output_index\":1"), std::string::npos);
  // It goes back as an item.
  const Json again{{"input",
                    {{{"role", "user"}, {"content", "a"}},
                     output[0],
                     output[1],
                     {{"role", "user"}, {"content", model_->prompt("plain")}}}},
                   {"temperature", 0}};
  EXPECT_EQ(post("/v1/responses", again)["output"][0]["content"][0]["text"], "No thoughts.");
}

TEST_F(ReasoningContent, IsTheThinkingOfOllama) {
  const Json body{{"model", "script"},
                  {"messages", {{{"role", "user"}, {"content", model_->prompt("thought")}}}},
                  {"stream", false},
                  {"options", {{"temperature", 0}, {"num_predict", 200}}}};
  const Json message = post("/api/chat", body)["message"];
  EXPECT_EQ(message["thinking"], "A greeting.");
  EXPECT_EQ(message["content"], "Hello!");
}

TEST(ReasoningContentOff, StaysInTheText) {
  const test::ScriptedModel model({"</s>"}, {"<think>", "</think>"}, kTexts);
  serve::ServeOptions options{.models = {{"script", model.folder()}}};
  options.tells_thoughts = false;
  const auto server = test::start_server(options);
  const Json body{{"messages", {{{"role", "user"}, {"content", model.prompt("thought")}}}},
                  {"temperature", 0},
                  {"max_tokens", 200}};
  const Answer answer = Client(server->port()).post("/v1/chat/completions", dump_json(body));
  EXPECT_EQ(json_of(answer)["choices"][0]["message"]["content"], "<think>\nA greeting.\n</think>\n\nHello!");
}

}  // namespace
}  // namespace transom
