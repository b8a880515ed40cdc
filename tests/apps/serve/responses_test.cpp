// SPDX-License-Identifier: Apache-2.0
// /v1/responses: items in, items and events out, calls of functions among them.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "apps/serve/openai/chat_of_response.h"
#include "apps/serve/openai/response_sink.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

Json tools_of_response() {
  return {
      {{"type", "function"},
       {"name", "weather"},
       {"description", "Of a city"},
       {"strict", true},
       {"parameters",
        {{"type", "object"},
         {"properties",
          {{"city", {{"enum", {"Rome", "Oslo"}}}}, {"days", {{"type", "integer"}, {"maximum", 9}, {"minimum", 0}}}}},
         {"required", {"city", "days"}},
         {"additionalProperties", false}}}},
      {{"type", "function"}, {"name", "clock"}, {"parameters", {{"type", "object"}, {"additionalProperties", false}}}}};
}

serve::ChatOfResponse chat_of(const Json& body) {
  serve::RequestFields fields(body);
  return serve::read_chat_of_response(fields);
}

TEST(ChatOfResponse, CallsAndOutputsBecomeTurns) {
  const serve::ChatOfResponse chat = chat_of(
      {{"instructions", "be brief"},
       {"input",
        {{{"role", "user"}, {"content", "weather?"}},
         {{"type", "message"}, {"role", "assistant"}, {"content", "I look."}},
         {{"type", "function_call"}, {"call_id", "a"}, {"name", "weather"}, {"arguments", R"({"city":"Rome"})"}},
         {{"type", "function_call"}, {"call_id", "b"}, {"name", "clock"}, {"arguments", ""}},
         {{"type", "function_call_output"}, {"call_id", "b"}, {"output", "noon"}},
         {{"type", "function_call_output"},
          {"call_id", "a"},
          {"output", {{{"type", "input_text"}, {"text", "sun"}}}}}}},
       {"tools", tools_of_response()},
       {"tool_choice",
        {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", {{{"type", "function"}, {"name", "clock"}}}}}}});
  const Json& messages = chat.body["messages"];
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[2]["content"], "I look.");
  ASSERT_EQ(messages[2]["tool_calls"].size(), 2u);
  EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["name"], "weather");
  EXPECT_EQ(messages[3]["role"], "tool");
  EXPECT_EQ(messages[3]["name"], "clock");
  EXPECT_EQ(messages[4]["tool_call_id"], "a");
  EXPECT_EQ(chat.items, (std::vector<int>{-1, 0, 1, 4, 5}));
  EXPECT_EQ(chat.named("messages[4].content: expected"), "input[5].content: expected");
  EXPECT_EQ(chat.named("tools[1].function.name: expected"), "tools[1].name: expected");
  EXPECT_EQ(chat.body["tools"][0]["function"]["description"], "Of a city");
  EXPECT_EQ(chat.body["tool_choice"]["allowed_tools"]["mode"], "auto");
}

TEST(ChatOfResponse, RefusesByNameWhatIsNoCall) {
  const auto param = [](const Json& body) -> std::string {
    try {
      chat_of(body);
    } catch (const serve::ApiError& error) {
      EXPECT_NE(std::string(error.what()).find(error.param()), std::string::npos) << error.what();
      return error.param();
    }
    return "";
  };
  const Json call{{"type", "function_call"}, {"call_id", "a"}, {"name", "f"}, {"arguments", "{"}};
  EXPECT_EQ(param({{"input", {call}}}), "");  // any text, as OpenAI takes it
  EXPECT_EQ(param({{"input", {{{"type", "function_call"}, {"name", "f"}}}}}), "input[0].call_id");
  EXPECT_EQ(param({{"input", {{{"type", "function_call_output"}, {"call_id", "a"}, {"output", "x"}}}}}),
            "input[0].call_id");
  EXPECT_EQ(param({{"input", {{{"type", "item_reference"}, {"id", "a"}}}}}), "input[0]");
  EXPECT_EQ(param({{"input", "a"}, {"tools", {{{"type", "web_search"}}}}}), "tools[0]");
  EXPECT_EQ(param({{"input", "a"}, {"tools", {{{"type", "function"}}}}}), "tools[0].name");
  EXPECT_EQ(param({{"input", "a"}, {"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", nullptr}}}}}), "");
  EXPECT_EQ(param({{"input", "a"}, {"tool_choice", {{"type", "file_search"}}}}), "tool_choice");
}

class Responses : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("llama-lm")) return;
    server_ = test::start_server({.models = {test::golden_model("llama-lm", "chat")}}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Json request(const Json& more) {
    Json body{{"model", "chat"},         {"input", "hello"},   {"tools", tools_of_response()},
              {"max_output_tokens", 87}, {"temperature", 0.9}, {"seed", 3}};
    body.update(more);
    return body;
  }
  static Json post(const Json& body, int status = 200) {
    Client client(server_->port());
    const Answer answer = client.post("/v1/responses", dump_json(body));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json_of(answer);
  }
  static std::vector<Json> stream(Json body) {
    body["stream"] = true;
    Client client(server_->port());
    const Answer answer = client.post("/v1/responses", dump_json(body));
    std::vector<Json> events;
    for (size_t at = 0; (at = answer.body.find("\ndata: ", at)) != std::string::npos;) {
      const size_t begin = at + 7;
      at = answer.body.find("\n\n", begin);
      events.push_back(parse_json(answer.body.substr(begin, at - begin), "event"));
    }
    return events;
  }
  static inline serve::Server* server_ = nullptr;
};

TEST_F(Responses, RequiredCallsAreItems) {
  for (const Json& choice : {Json("required"), Json{{"type", "function"}, {"name", "weather"}}}) {
    const Json answer = post(request({{"tool_choice", choice}, {"parallel_tool_calls", false}}));
    EXPECT_EQ(answer["status"], "completed") << dump_json(answer);
    EXPECT_EQ(answer["tools"], tools_of_response());
    EXPECT_EQ(answer["tool_choice"], choice);
    EXPECT_EQ(answer["parallel_tool_calls"], false);
    ASSERT_EQ(answer["output"].size(), 1u) << dump_json(answer);
    const Json item = answer["output"][0];
    EXPECT_EQ(item["type"], "function_call");
    EXPECT_TRUE(item["call_id"].get<std::string>().starts_with("call_"));
    EXPECT_TRUE(item["id"].get<std::string>().starts_with("fc_"));
    if (choice.is_object()) {
      EXPECT_EQ(item["name"], "weather");
      EXPECT_TRUE(parse_json(item["arguments"].get<std::string>(), "arguments").contains("city"));
    }
  }
}

TEST_F(Responses, StreamedCallsAreTheCalls) {
  const Json body = request({{"tool_choice", {{"type", "function"}, {"name", "weather"}}}});
  const Json whole = post(body)["output"][0];
  const std::vector<Json> events = stream(body);
  std::vector<std::string> types;
  std::string arguments;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"].get<std::string>().substr(std::string("response.").size());
    if (types.empty() || types.back() != type) types.push_back(type);  // arguments come as they are written
    if (types.back() == "function_call_arguments.delta") arguments += events[i]["delta"].get<std::string>();
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{"created", "in_progress", "output_item.added", "function_call_arguments.delta",
                                      "function_call_arguments.done", "output_item.done", "completed"}));
  EXPECT_EQ(arguments, whole["arguments"]);
  const Json done = events[events.size() - 3], item = events[events.size() - 2]["item"];
  EXPECT_EQ(done["arguments"], arguments);
  EXPECT_EQ(done["name"], "weather");
  EXPECT_EQ(events[2]["item"]["status"], "in_progress");
  EXPECT_EQ(events.back()["response"]["output"][0], item);
  EXPECT_EQ(item["id"], events[3]["item_id"]);
  EXPECT_GT(events.size(), 8u);
}

TEST_F(Responses, ACallThatALimitCutsIsIncomplete) {
  Json body = request({{"tool_choice", "required"}, {"max_output_tokens", 45}});
  body["tools"][0]["parameters"]["properties"]["city"] = {{"type", "string"}, {"minLength", 60}};
  body["tools"] = Json::array({body["tools"][0]});
  const Json whole = post(body);
  EXPECT_EQ(whole["status"], "incomplete");
  ASSERT_EQ(whole["output"].size(), 1u) << dump_json(whole);
  const Json item = whole["output"][0];
  EXPECT_EQ(item["type"], "function_call");
  EXPECT_EQ(item["status"], "incomplete");
  const Json streamed = stream(body).back();
  EXPECT_EQ(streamed["type"], "response.incomplete");
  EXPECT_EQ(streamed["response"]["output"][0]["arguments"], item["arguments"]);
  EXPECT_EQ(streamed["response"]["output"][0]["status"], "incomplete");
}

TEST_F(Responses, TextBesideToolsIsAMessage) {
  const Json body = request({{"max_output_tokens", 6}});
  const Json whole = post(body);
  ASSERT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["type"], "message");
  std::string text;
  for (const Json& event : stream(body))
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  // Without the tools the conversation goes on all the same.
  post({{"input",
         {{{"type", "function_call"}, {"call_id", "a"}, {"name", "clock"}, {"arguments", "{}"}},
          {{"type", "function_call_output"}, {"call_id", "a"}, {"output", "noon"}}}},
        {"max_output_tokens", 3}});
  EXPECT_EQ(post(request({{"tools", Json::array({{{"type", "function"}, {"name", "a b"}}})}}), 400)["error"]["param"],
            "tools[0]");
}

}  // namespace
}  // namespace transom
