// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/functions.h"

#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

TEST(Functions, AreTools) {
  Json body = Json::parse(R"({
    "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"},
    "messages": [{"role": "user", "content": "a"},
                 {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
                 {"role": "function", "name": "f", "content": "7"}]})");
  EXPECT_TRUE(serve::replace_functions(body));
  EXPECT_EQ(body, Json::parse(R"({
    "messages": [{"role": "user", "content": "a"},
                 {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                 {"role": "tool", "name": "f", "content": "7", "tool_call_id": "call_1"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false})"));
  Json newer{{"messages", Json::array()}, {"tools", Json::array()}};
  EXPECT_FALSE(serve::replace_functions(newer));
  for (const char* text : {R"({"functions": [{"name": "f"}], "tools": [{}]})", R"({"functions": []})",
                           R"({"function_call": "auto"})", R"({"functions": [{"name": "f"}], "function_call": 7})"}) {
    Json wrong = Json::parse(text);
    EXPECT_THROW(serve::replace_functions(wrong), serve::ApiError) << text;
  }
}

// The answer has the form of the request. Every token of the model is a piece of the call.
TEST(Functions, AreCalledInTheirOwnForm) {
  test::TemporaryFolder folder;
  Json config = Json::parse(test::kWordGpt2);
  config["eos_token_id"] = 11;
  test::save_word_model(folder, dump_json(config).c_str(), "",
                        R"({"chat_template": "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"})");
  Json tokenizer = Json::parse(read_file(folder / "tokenizer.json"));
  Json vocabulary = Json::object();
  const std::vector<std::string> words{"{\"name\"", ":\"f\"", ",\"arguments\"", ":{}", "}", "{}", " ", "w7", "w8", "w9",
                                       "w10",       "w11"};
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  tokenizer["model"]["vocab"] = vocabulary;
  write_file(folder / "tokenizer.json", dump_json(tokenizer));
  const auto server = test::start_server({.models = {{"words", folder.string()}}});
  const Json body{{"messages", {{{"role", "user"}, {"content", "w7"}}}},
                  {"functions", {{{"name", "f"}, {"parameters", {{"type", "object"}, {"maxProperties", 0}}}}}},
                  {"function_call", {{"name", "f"}}},
                  {"max_tokens", 12},
                  {"temperature", 0}};
  const test::Answer answer = test::Client(server->port()).post("/v1/chat/completions", dump_json(body));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json choice = test::json_of(answer)["choices"][0];
  ASSERT_TRUE(choice["message"].contains("function_call")) << answer.body;
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["message"]["function_call"]["name"], "f");
  Json stream = body;
  stream["stream"] = true;
  std::string name, arguments;
  for (const std::string& event :
       test::events_of(test::Client(server->port()).post("/v1/chat/completions", dump_json(stream)).body)) {
    if (event == "[DONE]") continue;
    const Json delta = parse_json(event, "event")["choices"][0]["delta"];
    EXPECT_FALSE(delta.contains("tool_calls"));
    if (!delta.contains("function_call")) continue;
    name += delta["function_call"].value("name", "");
    arguments += delta["function_call"].value("arguments", "");
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, choice["message"]["function_call"]["arguments"]);
}

}  // namespace
}  // namespace transom
