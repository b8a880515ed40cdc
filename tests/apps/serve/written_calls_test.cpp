// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/tools/written_calls.h"

#include <gtest/gtest.h>

#include "apps/serve/tools/written_answer.h"

namespace transom {
namespace {

using serve::ToolCall;
using serve::ToolChoice;
using serve::WrittenCalls;

const std::string kText =
    R"( [{"name": "now", "parameters": {}}, {"name" : "say", "parameters" : {"a": "}]\\\"{ ", "b": [1, {"c": 2}]} }, )"
    R"({"name": "n", "parameters": -1.5e3}, {"name": "s", "parameters": "}\\"}, {"name": "t", "parameters":[true]}] )";

TEST(WrittenCalls, OfAListAreThoseThatAreWritten) {
  WrittenCalls written({.what = ToolChoice::kRequired});
  written.add(kText);
  const std::vector<ToolCall>& calls = written.calls();
  ASSERT_EQ(calls.size(), 5u);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"now", "{}"},
      {"say", R"({"a": "}]\\\"{ ", "b": [1, {"c": 2}]})"},
      {"n", "-1.5e3"},
      {"s", R"("}\\")"},
      {"t", "[true]"}};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].name, expected[i].first);
    EXPECT_EQ(calls[i].arguments, expected[i].second);
  }
}

// Wherever a limit cuts the text, its calls are beginnings of the whole ones, and its last arguments are the rest.
TEST(WrittenCalls, OfACutTextAreTheBeginning) {
  WrittenCalls whole({.what = ToolChoice::kRequired}), growing({.what = ToolChoice::kRequired});
  whole.add(kText);
  for (size_t length = 0; length <= kText.size(); ++length) {
    WrittenCalls cut({.what = ToolChoice::kRequired});
    cut.add(kText.substr(0, length));
    if (length > 0) growing.add(kText.substr(length - 1, 1));
    ASSERT_LE(cut.calls().size(), whole.calls().size());
    ASSERT_EQ(growing.calls().size(), cut.calls().size());
    for (size_t i = 0; i < cut.calls().size(); ++i) {
      EXPECT_EQ(growing.calls()[i].arguments, cut.calls()[i].arguments);
      EXPECT_EQ(cut.calls()[i].name, whole.calls()[i].name);
      const bool last = i + 1 == cut.calls().size();
      if (last) EXPECT_TRUE(whole.calls()[i].arguments.starts_with(cut.calls()[i].arguments)) << length;
      else EXPECT_EQ(cut.calls()[i].arguments, whole.calls()[i].arguments);
      if (cut.whole()) EXPECT_EQ(cut.calls()[i].arguments, whole.calls()[i].arguments) << length;
    }
    // Within the head of a call, too, it is not whole.
    if (length > 0 && cut.whole()) EXPECT_EQ(std::string("{:").find(kText[length - 1]), std::string::npos) << length;
  }
  EXPECT_TRUE(whole.whole());
  const auto of = [](const std::string& text) {
    ToolChoice choice{.what = ToolChoice::kRequired};
    choice.schema = {{"a", 1}};
    serve::WrittenAnswer answer(choice, {}, true);
    EngineEvent event;
    event.text = text;
    answer.add(event);
    answer.finish();
    EXPECT_EQ(answer.take_content(), "") << text;
    return answer.calls();
  };
  EXPECT_TRUE(of(R"([{"name": "n)").empty());
  ASSERT_EQ(of(R"([{"name": "now")").size(), 1u);
  EXPECT_EQ(of(R"([{"name": "now", "para)")[0].arguments, "");
  EXPECT_EQ(of(R"([{"name": "now", "parameters": {"a": "b c)")[0].arguments, R"({"a": "b c)");
}

TEST(WrittenCalls, OfANamedFunctionIsTheText) {
  WrittenCalls written({.what = ToolChoice::kNamed, .name = "f"});
  EXPECT_EQ(written.calls().size(), 1u);
  written.add("{\"a\"");
  EXPECT_EQ(written.calls()[0].name, "f");
  EXPECT_EQ(written.calls()[0].arguments, "{\"a\"");
}

TEST(WrittenCalls, OfFreeTextAreNone) {
  WrittenCalls written({.what = ToolChoice::kAuto});
  written.add(kText);
  EXPECT_TRUE(written.calls().empty());
}

}  // namespace
}  // namespace transom
