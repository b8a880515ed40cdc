// SPDX-License-Identifier: Apache-2.0
// /v1/messages over sockets: what a model says comes as blocks, whole and as events alike.
#include <gtest/gtest.h>

#include <map>

#include "apps/serve/golden_server.h"
#include "support/scripted_model.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

const std::map<std::string, std::string> kSaid{
    {"plain", "A quick answer."},
    {"empty", ""},
    {"long", std::string(300, 'z')},
    {"emoji", "Hi 😀é !"},
    {"thought", "<think>\nA greeting.\n</think>\n\nHello!"},
    {"unended", "<think>I wonder and wonder"},
    {"calls",
     "Look. <tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call> And "
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {\"zone\": 12345678901234567890123}}</tool_call> Wait."},
};

class Messages : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // The prompt is what the user says last; thoughts are asked for by a mark, so that the template reads the variable.
    model_ = new test::ScriptedModel({"</s>"}, {"<think>", "</think>"}, kSaid,
                                     "{% if enable_thinking %}{% endif %}{{ messages[-1]['content'] }}");
    server_ = test::start_server({.models = {{"script", model_->folder()}}}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete model_;
  }
  static Answer ask(const Json& body, const std::string& path = "/v1/messages", const std::string& headers = "") {
    return Client(server_->port()).post(path, dump_json(body), "anthropic-version: 2023-06-01\r\n" + headers);
  }
  static Json request(const std::string& text, const Json& more = Json::object()) {
    Json body{{"model", "script"},
              {"max_tokens", 250},
              {"temperature", 0},
              {"messages", {{{"role", "user"}, {"content", model_->prompt(text)}}}}};
    body.update(more);
    return body;
  }
  static Json tools() {
    Json list = Json::array();
    for (const char* name : {"get_weather", "get_time"})
      list.push_back({{"name", name}, {"description", "d"}, {"input_schema", {{"type", "object"}}}});
    return list;
  }

  // {name, data} of each event.
  static std::vector<std::pair<std::string, Json>> events(const Json& body) {
    Json streaming = body;
    streaming["stream"] = true;
    const Answer answer = ask(streaming);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::pair<std::string, Json>> list;
    for (size_t at = 0; at < answer.body.size();) {
      const size_t end = answer.body.find("\n\n", at);
      const std::string event = answer.body.substr(at, end - at);
      const size_t line = event.find('\n');
      EXPECT_TRUE(event.starts_with("event: ") && event.substr(line + 1).starts_with("data: ")) << event;
      list.emplace_back(event.substr(7, line - 7), parse_json(event.substr(line + 7), "event"));
      EXPECT_EQ(list.back().second["type"], list.back().first);
      at = end + 2;
    }
    return list;
  }

  // The message that a client puts together from the events.
  static Json joined(const Json& body) {
    Json message;
    std::vector<std::string> partial;
    bool stopped = false;
    for (const auto& [name, data] : events(body)) {
      EXPECT_FALSE(stopped) << name;
      if (name == "message_start") message = data["message"];
      if (name == "content_block_start") {
        EXPECT_EQ(data["index"], message["content"].size());
        message["content"].push_back(data["content_block"]);
        partial.emplace_back();
      }
      if (name == "content_block_delta") {
        const Json& delta = data["delta"];
        Json& block = message["content"].back();
        EXPECT_EQ(data["index"], message["content"].size() - 1);
        if (delta["type"] == "input_json_delta") partial.back() += delta["partial_json"].get<std::string>();
        for (const char* field : {"text", "thinking", "signature"})
          if (delta.contains(field)) block[field] = block[field].get<std::string>() + delta[field].get<std::string>();
      }
      if (name == "content_block_stop" && message["content"].back()["type"] == "tool_use" && !partial.back().empty())
        message["content"].back()["input"] = Json::parse(partial.back());
      if (name == "message_delta") {
        message.update(data["delta"]);
        message["usage"].update(data["usage"]);
      }
      stopped = name == "message_stop";
    }
    EXPECT_TRUE(stopped);
    return message;
  }

  // The whole answer, which is the one that the events give. Ids are new in each.
  static Json answer_to(const Json& body) {
    const Answer answer = ask(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    const Json whole = json_of(answer);
    const auto comparable = [](Json message) {
      message.erase("id"), message.erase("usage");
      for (Json& block : message["content"]) block.erase("id");
      return message;
    };
    EXPECT_EQ(comparable(joined(body)), comparable(whole));
    return whole;
  }
  static Json error_of(const Json& body, int status) {
    const Answer answer = ask(body);
    EXPECT_EQ(answer.status, status) << answer.body;
    const Json json = json_of(answer);
    EXPECT_EQ(json["type"], "error");
    return json["error"];
  }
  static inline test::ScriptedModel* model_ = nullptr;
  static inline serve::Server* server_ = nullptr;
};

TEST_F(Messages, AnswersWithText) {
  const Json message = answer_to(request("plain"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], "script");
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["content"], Json::array({{{"type", "text"}, {"text", "A quick answer."}}}));
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(message["usage"]["output_tokens"], 15);
  EXPECT_EQ(answer_to(request("emoji"))["content"][0]["text"], "Hi 😀é !");
  EXPECT_EQ(answer_to(request("empty"))["content"], Json::array());
}

TEST_F(Messages, StopsWhereItIsTold) {
  const Json stopped = answer_to(request("plain", {{"stop_sequences", {"swer", "zz"}}}));
  EXPECT_EQ(stopped["content"][0]["text"], "A quick an");
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "swer");
  const Json cut = answer_to(request("plain", {{"max_tokens", 3}}));
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["usage"]["output_tokens"], 3);
  // More than the context holds is taken, as clients always ask for much.
  const Json full = answer_to(request("plain", {{"max_tokens", 1000000}}));
  EXPECT_EQ(full["stop_reason"], "end_turn");
  EXPECT_EQ(answer_to(request("plain", {{"max_tokens", 0}}))["content"], Json::array());
}

TEST_F(Messages, ThinksWhereItIsAskedTo) {
  const Json thinking{{"thinking", {{"type", "enabled"}, {"budget_tokens", 100}}}};
  const Json message = answer_to(request("thought", thinking));
  ASSERT_EQ(message["content"].size(), 2u) << message;
  EXPECT_EQ(message["content"][0]["type"], "thinking");
  EXPECT_EQ(message["content"][0]["thinking"], "A greeting.");
  EXPECT_FALSE(message["content"][0]["signature"].get<std::string>().empty());
  EXPECT_EQ(message["content"][1], Json({{"type", "text"}, {"text", "Hello!"}}));
  EXPECT_EQ(message["usage"]["output_tokens_details"]["thinking_tokens"], 11);
  // Who does not ask gets the answer alone.
  EXPECT_EQ(answer_to(request("thought"))["content"], Json::array({{{"type", "text"}, {"text", "Hello!"}}}));
  EXPECT_EQ(answer_to(request("unended", thinking))["content"][0]["thinking"], "I wonder and wonder");
  EXPECT_EQ(error_of(request("thought", {{"max_tokens", 100}, {"thinking", thinking["thinking"]}}), 400)["type"],
            "invalid_request_error");
}

TEST_F(Messages, EndsThoughtsByTheirBudget) {
  // The model writes what it writes at each place: the close takes the place of one token.
  const Json message = answer_to(request("unended", {{"thinking", {{"type", "enabled"}, {"budget_tokens", 8}}}}));
  ASSERT_EQ(message["content"].size(), 2u) << message;
  EXPECT_EQ(message["content"][0]["thinking"], "I wonder");
  EXPECT_EQ(message["content"][1]["text"], "and wonder");
}

TEST_F(Messages, CallsTools) {
  const Json message = answer_to(request("calls", {{"tools", tools()}}));
  ASSERT_EQ(message["content"].size(), 5u) << message;
  EXPECT_EQ(message["content"][0], Json({{"type", "text"}, {"text", "Look."}}));
  EXPECT_EQ(message["content"][2], Json({{"type", "text"}, {"text", " And"}}));
  EXPECT_EQ(message["content"][3]["name"], "get_time");
  EXPECT_EQ(message["content"][4], Json({{"type", "text"}, {"text", " Wait."}}));
  EXPECT_EQ(message["content"][1]["type"], "tool_use");
  EXPECT_EQ(message["content"][1]["name"], "get_weather");
  EXPECT_EQ(message["content"][1]["input"], Json({{"city", "Paris"}}));
  EXPECT_TRUE(message["content"][1]["id"].get<std::string>().starts_with("toolu_"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
  // The numbers have all their digits.
  EXPECT_NE(ask(request("calls", {{"tools", tools()}})).body.find("12345678901234567890123"), std::string::npos);
  const Json one = answer_to(
      request("calls", {{"tools", tools()}, {"tool_choice", {{"type", "auto"}, {"disable_parallel_tool_use", true}}}}));
  int calls = 0;
  for (const Json& block : one["content"]) calls += block["type"] == "tool_use";
  EXPECT_EQ(calls, 1);
}

TEST_F(Messages, MustCallWhereTheChoiceSaysSo) {
  const Json named{{"tools", tools()}, {"tool_choice", {{"type", "tool"}, {"name", "get_time"}}}, {"max_tokens", 12}};
  const Json message = answer_to(request("plain", named));
  ASSERT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["content"][0]["name"], "get_time");
  EXPECT_TRUE(message["content"][0]["input"].is_object());
}

TEST_F(Messages, CountsTokensAsItReadsThem) {
  const Json body = request("plain", {{"system", "ignored"}});
  Json counting = body;
  counting.erase("max_tokens"), counting.erase("temperature");
  const Json count = json_of(ask(counting, "/v1/messages/count_tokens"));
  const Json usage = json_of(ask(body))["usage"];
  EXPECT_EQ(count["input_tokens"],
            usage["input_tokens"].get<int64_t>() + usage["cache_read_input_tokens"].get<int64_t>());
}

TEST_F(Messages, RefusesInItsForm) {
  EXPECT_EQ(error_of({{"model", "script"}, {"messages", Json::array()}}, 400)["message"], "max_tokens: field required");
  EXPECT_EQ(error_of(request("plain", {{"messages", Json::array()}}), 400)["message"],
            "messages: at least one message is required");
  EXPECT_EQ(error_of(request("plain", {{"model", "nobody"}}), 404)["type"], "not_found_error");
  const auto content = [](const Json& blocks) { return Json{{"messages", {{{"role", "user"}, {"content", blocks}}}}}; };
  const Json video = Json::array({{{"type", "video"}}});
  EXPECT_EQ(error_of(request("plain", content(video)), 400)["message"],
            "messages.0.content.0: blocks of the type 'video' are not supported by this server");
  const Json result = Json::array({{{"type", "tool_result"}, {"tool_use_id", "x"}, {"content", "1"}}});
  EXPECT_EQ(error_of(request("plain", content(result)), 400)["message"],
            "messages.0.content.0.tool_use_id: expected that of a tool_use before it, found 'x'");
  const Json web = Json::array({{{"type", "web_search_20250305"}, {"name", "web_search"}}});
  EXPECT_NE(error_of(request("plain", {{"tools", web}}), 400)["message"].get<std::string>().find("tools.0.type"),
            std::string::npos);
  const std::string long_text(20000, 'x');
  EXPECT_TRUE(error_of(request("plain", content(long_text)), 400)["message"].get<std::string>().starts_with(
      "prompt is too long: 20000 tokens > "));
  Client client(server_->port());
  EXPECT_EQ(client.post("/v1/messages", "{}", "anthropic-version: 2023-01-01\r\n").status, 400);
}

TEST_F(Messages, KeepsThePlacesOfAConversation) {
  // The template of this server gives the text of the last message: turns of one role are one.
  const std::string half = model_->prompt("plain");
  const Json turns{{"messages",
                    {{{"role", "user"}, {"content", "a"}},
                     {{"role", "assistant"}, {"content", "b"}},
                     {{"role", "user"}, {"content", half.substr(0, 1)}},
                     {{"role", "user"}, {"content", "y"}}}}};
  const Json usage = json_of(ask(request("plain", turns)))["usage"];
  EXPECT_EQ(usage["input_tokens"].get<int64_t>() + usage["cache_read_input_tokens"].get<int64_t>(), 4);  // "x\n\ny"
}

TEST_F(Messages, ListsModelsInItsForm) {
  Client client(server_->port());
  const std::string version = "anthropic-version: 2023-06-01\r\n";
  const Json list = json_of(client.get("/v1/models?limit=20", version));
  EXPECT_EQ(list["data"][0]["id"], "script");
  EXPECT_EQ(list["data"][0]["type"], "model");
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(json_of(client.get("/v1/models/script", version))["display_name"], "script");
  EXPECT_EQ(json_of(client.get("/v1/models/nobody", version))["error"]["type"], "not_found_error");
  EXPECT_EQ(json_of(client.get("/v1/models"))["object"], "list");
}

// What the official client sends, recorded by tests/golden/make/anthropic_client.py, is taken unchanged.
TEST_F(Messages, TakesRecordedRequestsOfTheOfficialClient) {
  const std::string recorded = read_file(test::golden_folder() / "clients" / "anthropic.jsonl");
  int taken = 0;
  for (size_t at = 0; at < recorded.size();) {
    const size_t end = recorded.find('\n', at);
    const Json line = parse_json(recorded.substr(at, end - at), "line");
    at = end + 1;
    std::string headers;
    for (const auto& [name, value] : line["headers"].items())
      if (name != "content-type") headers += name + ": " + value.get<std::string>() + "\r\n";
    Client client(server_->port());
    const std::string path = line["path"];
    if (line["method"] == "GET") {
      EXPECT_EQ(client.get(path, headers).status, 200) << path;
    } else {
      const bool pictures = dump_json(line["body"]).find("image/png") != std::string::npos;
      const Answer answer = client.post(path, dump_json(line["body"]), headers);
      EXPECT_EQ(answer.status, pictures ? 400 : 200) << dump_json(line["body"]) << answer.body;  // it reads no pictures
    }
    ++taken;
  }
  EXPECT_GE(taken, 19);
}

TEST(MessagesWithKeys, TakesTheKeyOfEitherHeader) {
  const test::ScriptedModel model({"</s>"}, {}, {{"plain", "Hi"}});
  const auto server = test::start_server({.models = {{"script", model.folder()}}, .api_keys = {"key-1"}});
  const std::string body = dump_json(Json{
      {"model", "script"}, {"max_tokens", 5}, {"messages", {{{"role", "user"}, {"content", model.prompt("plain")}}}}});
  const auto status = [&](const std::string& headers) {
    return Client(server->port()).post("/v1/messages", body, headers).status;
  };
  EXPECT_EQ(status("x-api-key: key-1\r\n"), 200);
  EXPECT_EQ(status("Authorization: Bearer key-1\r\n"), 200);
  EXPECT_EQ(status("x-api-key: key-2\r\n"), 401);
  const Answer none = Client(server->port()).post("/v1/messages", body);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(json_of(none)["error"]["type"], "authentication_error");
}

}  // namespace
}  // namespace transom
