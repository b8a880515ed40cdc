// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "apps/serve/tools/tool_calls.h"
#include "apps/serve/tools/tool_choice.h"
#include "support/message.h"
#include "work/generation/constraint/schema/json_schema.h"

namespace transom {
namespace {

using serve::parse_tool_calls;
using serve::ParsedAnswer;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "now"}}])");

void expect_calls(const std::string& text, const std::vector<std::pair<std::string, std::string>>& calls,
                  const std::string& content = "") {
  const ParsedAnswer answer = parse_tool_calls(text, kTools);
  ASSERT_EQ(answer.calls.size(), calls.size()) << text;
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(answer.calls[i].name, calls[i].first) << text;
    EXPECT_EQ(answer.calls[i].arguments, calls[i].second) << text;
  }
  EXPECT_EQ(answer.content, content) << text;
}

TEST(ToolCalls, OfEachFamily) {
  const std::pair<std::string, std::string> rome{"weather", R"({"city":"Rome","days":2})"}, now{"now", "{}"};
  expect_calls("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2}}\n</tool_call>",
               {rome});
  expect_calls(
      "Let me see. "
      "<tool_call>{\"name\":\"now\",\"arguments\":{}}</"
      "tool_call>\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Rome\",\"days\":2}}</tool_call>",
      {now, rome}, "Let me see.");
  expect_calls(
      "<|python_tag|>{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 2}}; {\"name\": \"now\", "
      "\"parameters\": {}}",
      {rome, now});
  expect_calls("{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 2}}", {rome});
  expect_calls("[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2}}]", {rome});
  expect_calls("[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\", \"days\": 2}[TOOL_CALLS]now[ARGS]{}", {rome, now});
  expect_calls("[weather(city=\"Rome\", days=2), now()]", {rome, now});
  expect_calls("<|tool_call_start|>[now()]<|tool_call_end|>", {now});
  expect_calls(
      "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n</"
      "function>\n</tool_call>",
      {rome});
  expect_calls(
      "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</"
      "arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
      {rome});
  expect_calls("<function=weather>{\"city\": \"Rome\", \"days\": 2}</function>", {rome});
  expect_calls(
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": "
      "\"Rome\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>",
      {rome});
  expect_calls(
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\", "
      "\"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      {rome});
}

TEST(ToolCalls, WhatIsNoCallIsContent) {
  for (const std::string text :
       {"Hello.", "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>", "<tool_call>{broken",
        "<tool_call>", "[TOOL_CALLS]", "{\"name\": 3}", "[weather(city=__import__('os'))]",
        "[weather(city=", "{\"a\": 1}", "[", "<|python_tag|>print(1)", "<function=weather",
        "<tool_call><function=weather><parameter=city>"})
    expect_calls(text, {}, text);
  // A long answer that opens over and over takes no long time.
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "<tool_call>{";
  EXPECT_TRUE(parse_tool_calls(many, kTools).calls.empty());
}

// A name with a type that the schema says: a text stays one.
TEST(ToolCalls, TypesComeFromTheSchema) {
  expect_calls(
      "<tool_call><function=weather><parameter=city>12</parameter><parameter=days>12</parameter></function></"
      "tool_call>",
      {{"weather", R"({"city":"12","days":12})"}});
}

// What goes out while the text is written.
TEST(ToolCalls, HoldsBackWhatMayBecomeACall) {
  const auto certain = [](const std::string& text) {
    serve::ToolCallParser parser(std::make_shared<const serve::KnownTools>(kTools), true);
    parser.add(text, false);
    return parser.take_content();
  };
  EXPECT_EQ(certain("Hello <tool"), "Hello");
  EXPECT_EQ(certain("Hello <tool_call>{"), "Hello");
  EXPECT_EQ(certain("Hello <tool_call>{a"), "Hello <tool_call>{a");
  EXPECT_EQ(certain("Hello <b> "), "Hello <b>");
  EXPECT_EQ(certain("  {"), "");
  EXPECT_EQ(certain("{1"), "{1");
  EXPECT_EQ(certain("[1"), "[1");
  EXPECT_EQ(certain("a{"), "a{");
  EXPECT_EQ(certain("a[TOOL_"), "a");
}

TEST(ToolCalls, WhatStandsBesideCallsIsContent) {
  const std::pair<std::string, std::string> now{"now", "{}"};
  expect_calls("<tool_call>{\"name\": \"now\"}</tool_call>\nThat was the time.", {now}, "That was the time.");
  expect_calls("I look.\n<tool_call>{\"name\": \"now\"}</tool_call>\nDone. ", {now}, "I look.\nDone.");
  expect_calls("I look.\n\n<tool_call>{\"name\": \"now\"}</tool_call>Done.", {now}, "I look.\n\nDone.");
  expect_calls("[TOOL_CALLS][{\"name\": \"now\"}, {\"name\": \"other\"}]", {now}, "{\"name\": \"other\"}");
  expect_calls("[now(), other(a=1), now(a=open('x'))]", {now}, "other(a=1)now(a=open('x'))");
  expect_calls("{\"name\": \"now\"}; {\"name\": \"no", {now}, "; {\"name\": \"no");
}

TEST(ToolCalls, ThinkingIsContent) {
  const std::string call = "<tool_call>{\"name\": \"now\"}</tool_call>",
                    think = "<think>\nPerhaps " + call + ".\n</think>";
  expect_calls(think + "\n\n" + call, {{"now", "{}"}}, think);
  expect_calls(think, {}, think);
  expect_calls("<think>\nI might use <tool_call> here.\n</think>\n" + call, {{"now", "{}"}},
               "<think>\nI might use <tool_call> here.\n</think>");
  // Who never ends thinking calls all the same.
  expect_calls("<think>\nI call. " + call, {{"now", "{}"}}, "<think>\nI call.");
}

TEST(ToolCalls, ArgumentsHaveTheDigitsOfTheModel) {
  const std::string numbers =
      R"({"a":12345678901234567890123,"b":-0.12345678901234567890,"c":1e-7,"d":1E+400,"e":[18446744073709551616,1.0]})";
  expect_calls("<tool_call>{\"name\": \"now\", \"arguments\": " + numbers + "}</tool_call>", {{"now", numbers}});
  expect_calls("[TOOL_CALLS]now[ARGS] " + numbers, {{"now", numbers}});
  expect_calls("[now(a=12345678901234567890123, b=-.5, c=1e-7, d=1_000, e=5.)]",
               {{"now", R"({"a":12345678901234567890123,"b":-0.5,"c":1e-7,"d":1000,"e":5.0})"}});
  expect_calls("<function=now><parameter=a>12345678901234567890123</parameter></function>",
               {{"now", R"({"a":12345678901234567890123})"}});
  expect_calls("<tool_call>now<arg_key>a</arg_key><arg_value>0.10000000000000000000001</arg_value></tool_call>",
               {{"now", R"({"a":0.10000000000000000000001})"}});
}

TEST(ToolCalls, StringsOfPythonSayWhatPythonReads) {
  expect_calls(
      R"([weather(city='K\u00f6ln \U0001f600 \xe9 \'a\' \q \101'), now(a="x" 'y', b=(1, [True, None]), c={"d": 'e'})])",
      {{"weather", R"({"city":"Köln 😀 é 'a' \\q A"})"}, {"now", R"({"a":"xy","b":[1,[true,null]],"c":{"d":"e"}})"}});
  expect_calls("<|python_tag|>now.call(a=\"\"\"two\nlines\"\"\")<|eom_id|>", {{"now", R"({"a":"two\nlines"})"}});
}

// The text of a value may hold the tags that end it.
TEST(ToolCalls, ValuesMayHoldTags) {
  expect_calls("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
               {{"now", R"({"a":"</tool_call>"})"}});
  expect_calls("<function=now><parameter=a>x</parameter> y</parameter></function>",
               {{"now", R"({"a":"x</parameter> y"})"}});
  expect_calls("<tool_call>now<arg_key>a</arg_key><arg_value></arg_value>b</arg_value></tool_call>",
               {{"now", R"({"a":"</arg_value>b"})"}});
}

TEST(ToolCalls, OfHarmonyStandInMessages) {
  const auto parse = [](const std::vector<std::string>& pieces) {
    serve::ToolCallParser parser(std::make_shared<const serve::KnownTools>(kTools), true);
    for (const std::string& piece : pieces) parser.add(piece, piece.starts_with("<|"));
    parser.finish();
    return std::pair(parser.take_content(), parser.calls());
  };
  auto [content, calls] =
      parse({"<|channel|>", "analysis", "<|message|>", "I need it.", "<|end|>", "<|start|>", "assistant", "<|channel|>",
             "commentary to=functions.weather ", "<|constrain|>", "json", "<|message|>", "{\"city\": \"Rome\"}"});
  EXPECT_EQ(content, "I need it.");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "weather");
  EXPECT_EQ(calls[0].arguments, R"({"city":"Rome"})");
  std::tie(content, calls) = parse({"<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>", "<|start|>",
                                    "assistant", "<|channel|>", "final", "<|message|>", "Four."});
  EXPECT_EQ(content, "Hm.\n\nFour.");
  EXPECT_TRUE(calls.empty());
  std::tie(content, calls) = parse({"<|start|>", "assistant to=functions.now", "<|channel|>", "commentary ",
                                    "<|constrain|>", "json", "<|message|>", "{}", "<|call|>"});
  EXPECT_EQ(content, "");
  ASSERT_EQ(calls.size(), 1u);
}

TEST(ToolCalls, HostileTextsTakeLinearTime) {
  for (const std::string& part :
       {std::string("<tool_call>{"), std::string("<tool_call>{\"a\":\""),
        std::string("<function=now><parameter=a></parameter>"),
        std::string("<tool_call>now<arg_key>a</arg_key><arg_value>"), std::string("[TOOL_CALLS]now[ARGS]{\"a\":["),
        std::string("<|tool_call_start|>[now(a=["), std::string("<tool_calls><function=now>"),
        std::string("<think><tool_call>")}) {
    std::string many;
    while (many.size() < 400'000) many += part;
    serve::ToolCallParser parser(std::make_shared<const serve::KnownTools>(kTools), true);
    for (size_t at = 0; at < many.size(); at += 4) parser.add(std::string_view(many).substr(at, 4), false);
    parser.finish();
    EXPECT_EQ(parser.take_content(), many);
  }
}

// Two tools say different things by one name, and one refers to itself.
TEST(ToolChoice, EachToolsReferencesLeadIntoItsOwnSchema) {
  const Json body = Json::parse(R"({"tool_choice": "required", "tools": [
    {"type": "function", "function": {"name": "a", "parameters": {"type": "object", "required": ["x"],
      "properties": {"x": {"$ref": "#/$defs/Item"}, "$ref": {"enum": [{"$ref": "#"}]}},
      "$defs": {"Item": {"type": "boolean"}}}}},
    {"type": "function", "function": {"name": "b", "parameters": {"type": "object",
      "properties": {"x": {"$ref": "#/$defs/Item"}, "again": {"$ref": "#"}},
      "$defs": {"Item": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "c", "parameters": {"type": "object"}}}]})");
  serve::RequestFields fields(body);
  const Json schema = serve::read_tool_choice(fields).schema;
  const auto parameters = [&](size_t tool) { return schema["items"]["anyOf"][tool]["properties"]["parameters"]; };
  const auto at = [&](const std::string& reference) { return schema.at(Json::json_pointer(reference.substr(1))); };
  const Json a = at(parameters(0)["$ref"]), b = at(parameters(1)["$ref"]);
  EXPECT_EQ(at(a["properties"]["x"]["$ref"])["type"], "boolean");
  EXPECT_EQ(a["properties"]["$ref"]["enum"][0]["$ref"], "#");  // a value, and a name
  EXPECT_EQ(at(b["properties"]["x"]["$ref"])["type"], "integer");
  EXPECT_EQ(at(b["properties"]["again"]["$ref"]), b);
  EXPECT_EQ(parameters(2), body["tools"][2]["function"]["parameters"]);
  EXPECT_NO_THROW(constraint::json_schema_grammar(schema));
}

TEST(ToolChoice, TheAllowedToolsAreLeft) {
  Json body = Json::parse(R"({"tools": [
    {"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools":
      {"mode": "required", "tools": [{"type": "function", "function": {"name": "b"}}]}}})");
  const auto read = [&] {
    serve::RequestFields fields(body);
    return serve::read_tool_choice(fields);
  };
  serve::ToolChoice choice = read();
  EXPECT_EQ(choice.what, serve::ToolChoice::kRequired);
  EXPECT_EQ(choice.tools, Json::array({body["tools"][1]}));
  EXPECT_EQ(choice.schema["items"]["anyOf"].size(), 1u);
  EXPECT_EQ(choice.schema["items"]["anyOf"][0]["properties"]["name"]["const"], "b");
  body["tool_choice"]["allowed_tools"]["mode"] = "auto";
  choice = read();
  EXPECT_EQ(choice.what, serve::ToolChoice::kAuto);
  EXPECT_TRUE(choice.schema.is_null());
  EXPECT_EQ(serve::allowed_tools(body["tools"], &body["tool_choice"]), Json::array({body["tools"][1]}));
  body["tool_choice"]["allowed_tools"]["tools"][0]["function"]["name"] = "c";
  EXPECT_EQ(test::message_of(read),
            "tool_choice.allowed_tools.tools: expected names of the request's tools, found 'c'");
  body["tool_choice"]["allowed_tools"] = nullptr;
  EXPECT_EQ(test::message_of(read), "tool_choice.allowed_tools.tools: expected a list of at least one tool");
  body["tool_choice"] = {{"type", "custom"}};
  EXPECT_EQ(test::message_of(read),
            R"(tool_choice: expected {"type": "function", "function": {"name": ...}}, found '{"type":"custom"}')");
}

}  // namespace
}  // namespace transom
