// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_errors.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"

namespace transom {
namespace {

std::string syntax(std::string_view text) {
  return test::message_of([&] { parse_json(text, "a.json"); });
}

TEST(JsonErrors, SayTheLineAndTheColumn) {
  EXPECT_EQ(syntax("{\n  \"a\": 1,\n  \"b\" 2\n}"), "a.json: line 3, column 7: is not valid JSON at '2'");
  EXPECT_EQ(syntax("{\"a\": 1"), "a.json: line 1, column 8: is not valid JSON: the text ends too early");
  EXPECT_EQ(syntax(""), "a.json: line 1, column 1: is not valid JSON: the text ends too early");
  EXPECT_EQ(syntax("hello world"), "a.json: line 1, column 1: is not valid JSON at 'hello'");
  // Python's numbers are read as other words; places are those of the text that was given.
  EXPECT_EQ(syntax("[NaN, x]"), "a.json: line 1, column 7: is not valid JSON at 'x'");
  EXPECT_EQ(syntax("[-Infinity, Infinity,\n NaN, \"NaN\", x]"), "a.json: line 2, column 14: is not valid JSON at 'x'");
  EXPECT_EQ(syntax("[NaN"), "a.json: line 1, column 5: is not valid JSON: the text ends too early");
  EXPECT_EQ(syntax("[1e999]"), "a.json: is not valid JSON: a number is larger than 64 bits can hold");
  for (const char* text : {"[1,]", "{\"a\": tru}", "\"\xff\"", "[\x01]", "{\"a\": NaN, x}"})
    EXPECT_EQ(syntax(text).find("json.exception"), std::string::npos) << syntax(text);
}

TEST(JsonErrors, SayWhatWasExpected) {
  const Json json = Json::parse(R"({"a": "x", "b": [1]})");
  const auto reason = [](auto read) -> std::string {
    try {
      read();
    } catch (const Json::exception& error) {
      return json_reason(error);
    }
    return "nothing thrown";
  };
  EXPECT_EQ(reason([&] { (void)json.at("a").get<int64_t>(); }), "expected a number, found a string");
  EXPECT_EQ(reason([&] { (void)json.at("b").get<std::string>(); }), "expected a string, found an array");
  EXPECT_EQ(reason([&] { (void)json.at("c"); }), "'c' is missing");
  EXPECT_EQ(reason([&] { (void)json.at("a").at("b"); }), "expected an object or a list, found a string");
  EXPECT_EQ(reason([&] { (void)json.at("b").at(7); }), "a list is too short");
}

}  // namespace
}  // namespace transom
