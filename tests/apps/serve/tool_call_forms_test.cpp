// SPDX-License-Identifier: Apache-2.0
// Every form of calls, whole, cut, beside what is no call, with marks as text and as special tokens, in any pieces.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "apps/serve/tools/tool_calls.h"

namespace transom {
namespace {

using serve::KnownTools;
using serve::ToolCall;
using serve::ToolCallParser;

const Json kToolsOfForms = Json::parse(R"([
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "now"}}])");

struct Form {
  std::string name, before, behind, between;
  std::function<std::string(const std::string& tool, const Json& arguments)> write;
  std::string bad;  // a call that is none
};

std::string python_value(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  std::string text;
  if (value.is_array()) {
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + python_value(item);
    return "[" + text + "]";
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      text += (text.empty() ? "" : ", ") + python_value(key) + ": " + python_value(item);
    return "{" + text + "}";
  }
  return value.dump();
}

std::string python_call(const std::string& tool, const Json& arguments) {
  std::string text;
  for (const auto& [key, value] : arguments.items())
    text += (text.empty() ? "" : ", ") + key + "=" + python_value(value);
  return tool + "(" + text + ")";
}

std::string json_call(const std::string& tool, const Json& arguments) {
  return Json{{"name", tool}, {"arguments", arguments}}.dump(2);
}

std::string tagged_call(const std::string& tool, const Json& arguments) {
  std::string text = "<function=" + tool + ">\n";
  for (const auto& [key, value] : arguments.items())
    text += "<parameter=" + key + ">\n" + (value.is_string() ? value.get<std::string>() : value.dump()) +
            "\n</parameter>\n";
  return text + "</function>";
}

std::vector<Form> forms() {
  const auto framed = [](const std::string& open, const auto& write, const std::string& close) {
    return [=](const std::string& tool, const Json& arguments) { return open + write(tool, arguments) + close; };
  };
  const auto deepseek = [](const std::string& words) {
    std::string text = words;
    for (size_t at = 0; (at = text.find(' ', at)) != text.npos;) text.replace(at, 1, "▁");
    return "<｜" + text + "｜>";
  };
  return {
      {"Hermes", "", "", "\n", framed("<tool_call>\n", json_call, "\n</tool_call>"),
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"\n</tool_call>"},
      {"Qwen Coder", "", "", "\n", framed("<tool_call>\n", tagged_call, "\n</tool_call>"),
       "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</tool_call>"},
      {"tags alone", "", "", "\n", tagged_call, "<function=weather>{\"city\": Paris}</function>"},
      {"GLM", "", "", "\n",
       [](const std::string& tool, const Json& arguments) {
         std::string text = "<tool_call>" + tool + "\n";
         for (const auto& [key, value] : arguments.items())
           text += "<arg_key>" + key + "</arg_key>\n<arg_value>" +
                   (value.is_string() ? value.get<std::string>() : value.dump()) + "</arg_value>\n";
         return text + "</tool_call>";
       },
       "<tool_call>weather\n<arg_key>city</arg_key>\nParis</tool_call>"},
      {"Mistral", "[TOOL_CALLS][", "]", ", ", json_call, "{\"name\": \"weather\", \"arguments\": 5}"},
      {"Mistral with names", "", "", "",
       [](const std::string& tool, const Json& arguments) {
         return "[TOOL_CALLS]" + tool + "[ARGS]" + arguments.dump();
       },
       "[TOOL_CALLS]weather[ARGS]{\"city\": Paris}"},
      {"Mistral with ids", "", "", "",
       [](const std::string& tool, const Json& arguments) {
         return "[TOOL_CALLS]" + tool + "[CALL_ID]abcdefgh1[ARGS]" + arguments.dump();
       },
       "[TOOL_CALLS]weather[CALL_ID]abcdefgh1{\"city\": Paris}"},
      {"Llama", "<|python_tag|>", "", "; ", json_call, "{\"name\": \"weather\", \"parameters\": []}"},
      {"JSON alone", "", "", "; ", json_call, "{\"name\": \"weather\", \"parameters\": []}"},
      {"Llama 4", "<|python_start|>[", "]<|python_end|>", ", ", python_call, "weather(city=Paris)"},
      {"lists alone", "[", "]", ", ", python_call, "weather(city=Paris)"},
      {"LFM2", "<|tool_call_start|>[", "]<|tool_call_end|>", ", ", python_call, "weather(city=Paris)"},
      {"Granite", "<|tool_call|>[", "]", ", ", json_call, "{\"name\": \"weather\", \"arguments\": 5}"},
      {"Command R", "<|START_ACTION|>[", "]<|END_ACTION|>", ", ",
       [](const std::string& tool, const Json& arguments) {
         return Json{{"tool_call_id", "0"}, {"tool_name", tool}, {"parameters", arguments}}.dump();
       },
       "{\"tool_name\": \"weather\", \"parameters\": 5}"},
      {"Hunyuan", "<tool_calls>[", "]</tool_calls>", ", ", json_call, "{\"name\": \"weather\", \"arguments\": 5}"},
      {"Kimi", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "",
       [](const std::string& tool, const Json& arguments) {
         return "<|tool_call_begin|>functions." + tool + ":0<|tool_call_argument_begin|>" + arguments.dump() +
                "<|tool_call_end|>";
       },
       "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": Paris}<|tool_call_end|>"},
      {"DeepSeek V3", deepseek("tool calls begin"), deepseek("tool calls end"), "\n",
       [=](const std::string& tool, const Json& arguments) {
         return deepseek("tool call begin") + "function" + deepseek("tool sep") + tool + "\n```json\n" +
                arguments.dump() + "\n```" + deepseek("tool call end");
       },
       deepseek("tool call begin") + "function" + deepseek("tool sep") + "weather\n```json\n{\"city\": Paris}\n```" +
           deepseek("tool call end")},
      {"DeepSeek V3.1", deepseek("tool calls begin"), deepseek("tool calls end"), "",
       [=](const std::string& tool, const Json& arguments) {
         return deepseek("tool call begin") + tool + deepseek("tool sep") + arguments.dump() +
                deepseek("tool call end");
       },
       deepseek("tool call begin") + "weather" + deepseek("tool sep") + "{\"city\": Paris}" +
           deepseek("tool call end")},
  };
}

// The text in characters and marks, as tokenizers have them where these are special tokens.
std::vector<std::pair<std::string, bool>> pieces_of(const std::string& text, bool special) {
  static const std::vector<std::string> kMarks{"<tool_call>",
                                               "</tool_call>",
                                               "[TOOL_CALLS]",
                                               "[ARGS]",
                                               "[CALL_ID]",
                                               "<|python_tag|>",
                                               "<|python_start|>",
                                               "<|python_end|>",
                                               "<|tool_call_start|>",
                                               "<|tool_call_end|>",
                                               "<|tool_call|>",
                                               "<|START_ACTION|>",
                                               "<|END_ACTION|>",
                                               "<|tool_calls_section_begin|>",
                                               "<|tool_calls_section_end|>",
                                               "<|tool_call_begin|>",
                                               "<|tool_call_argument_begin|>",
                                               "<｜tool▁calls▁begin｜>",
                                               "<｜tool▁calls▁end｜>",
                                               "<｜tool▁call▁begin｜>",
                                               "<｜tool▁call▁end｜>",
                                               "<｜tool▁sep｜>"};
  std::vector<std::pair<std::string, bool>> pieces;
  for (size_t at = 0; at < text.size();) {
    const auto mark = std::find_if(kMarks.begin(), kMarks.end(),
                                   [&](const std::string& each) { return text.compare(at, each.size(), each) == 0; });
    const size_t length = mark == kMarks.end() ? 1 : mark->size();
    pieces.emplace_back(text.substr(at, length), special && mark != kMarks.end());
    at += length;
  }
  return pieces;
}

std::string shown(const std::string& text, bool special) {
  std::string all;
  for (const auto& [piece, is_special] : pieces_of(text, special))
    if (!is_special) all += piece;
  return all;
}

struct Parsed {
  std::string content;
  std::vector<std::pair<std::string, Json>> calls;
  bool operator==(const Parsed&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Parsed& parsed) {
  out << testing::PrintToString(parsed.content);
  for (const auto& [name, arguments] : parsed.calls) out << " " << name << arguments.dump();
  return out;
}

// In pieces of up to `most` bytes.
Parsed parse_in_pieces(const std::string& text, bool special, size_t most, std::mt19937& random) {
  ToolCallParser parser(std::make_shared<const KnownTools>(kToolsOfForms), true);
  std::string content, held;
  const auto give = [&] {
    parser.add(held, false);
    held.clear();
    content += parser.take_content();
  };
  size_t wanted = 1;
  for (const auto& [piece, is_special] : pieces_of(text, special)) {
    if (is_special) {
      if (!held.empty()) give();
      parser.add(piece, true);
    } else {
      held += piece;
    }
    if (held.size() < wanted) continue;
    give();
    wanted = std::uniform_int_distribution<size_t>(1, most)(random);
  }
  if (!held.empty()) give();
  parser.finish();
  Parsed parsed{content + parser.take_content(), {}};
  for (const ToolCall& call : parser.calls()) parsed.calls.emplace_back(call.name, Json::parse(call.arguments));
  return parsed;
}

// The same in any pieces.
Parsed parse(const std::string& text, bool special) {
  std::mt19937 random(1);
  const Parsed whole = parse_in_pieces(text, special, text.size() + 1, random);
  for (const size_t most : {1, 3, 20}) EXPECT_EQ(parse_in_pieces(text, special, most, random), whole) << text;
  return whole;
}

const Json kNested =
    Json::parse(R"({"city": "{[\"}])', \\ é 😀", "days": 2, "more": {"a": [1, {"b": "}"}], "c": null, "d": true}})");
const Json kEscaped = Json::parse(R"({"city": "caf\u00e9 \ud83d\ude00 \n \t", "days": -1})");

using Calls = std::vector<std::pair<std::string, Json>>;

class ToolCallForms : public testing::TestWithParam<bool> {};  // whether marks are special tokens

TEST_P(ToolCallForms, GoodCalls) {
  for (const Form& form : forms())
    for (const Json& arguments : {Json{{"city", "Paris"}, {"days", 1}}, kNested, kEscaped, Json::object()}) {
      const std::string first = form.write("weather", arguments), second = form.write("now", Json::object());
      EXPECT_EQ(parse(form.before + first + form.behind, GetParam()), (Parsed{"", {{"weather", arguments}}}))
          << form.name;
      EXPECT_EQ(parse(form.before + first + form.between + second + form.behind, GetParam()),
                (Parsed{"", {{"weather", arguments}, {"now", Json::object()}}}))
          << form.name;
      if (form.name.ends_with("alone") && form.name != "tags alone") continue;
      EXPECT_EQ(parse("I look.\n" + form.before + first + form.behind, GetParam()),
                (Parsed{"I look.", {{"weather", arguments}}}))
          << form.name;
    }
}

TEST_P(ToolCallForms, ABadCallTakesNoOtherWithIt) {
  for (const Form& form : forms()) {
    const std::string good = form.write("now", Json::object()), unknown = form.write("other", {{"city", "Oslo"}});
    for (const std::string& bad : {form.bad, unknown}) {
      for (const std::string& text : {bad + form.between + good, good + form.between + bad}) {
        const Parsed parsed = parse(form.before + text + form.behind, GetParam());
        EXPECT_EQ(parsed.calls, (Calls{{"now", Json::object()}})) << form.name << ": " << text;
        EXPECT_NE(parsed.content.find(bad == unknown ? "Oslo"
                                      : form.name == "Mistral" || form.name == "Granite" || form.name == "Hunyuan" ||
                                              form.name == "Command R"
                                          ? "5"
                                      : form.name == "Llama" || form.name == "JSON alone" ? "[]"
                                                                                          : "Paris"),
                  std::string::npos)
            << form.name << ": " << parsed;
      }
      const std::string alone = form.before + bad + form.behind;
      EXPECT_EQ(parse(alone, GetParam()), (Parsed{shown(alone, GetParam()), {}})) << form.name;
    }
  }
}

// Wherever a limit cuts the text, whole calls are calls, and nothing else is.
TEST_P(ToolCallForms, CutCallsAreContent) {
  std::mt19937 random(5);
  for (const Form& form : forms()) {
    const Json arguments{{"city", "a } ] b"}, {"days", 12}};
    const std::string text = form.before + form.write("weather", arguments) + form.between +
                             form.write("now", {{"zone", "UTC"}}) + form.behind;
    const Calls whole{{"weather", arguments}, {"now", {{"zone", "UTC"}}}};
    size_t calls = 0;
    for (size_t length = 0; length <= text.size(); ++length) {
      const std::string cut = text.substr(0, length);
      const Parsed parsed = parse_in_pieces(cut, GetParam(), 7, random);
      ASSERT_LE(parsed.calls.size(), whole.size());
      ASSERT_GE(parsed.calls.size(), calls) << form.name << ": " << cut;
      calls = parsed.calls.size();
      for (size_t i = 0; i < calls; ++i) EXPECT_EQ(parsed.calls[i], whole[i]) << form.name << ": " << cut;
      if (calls == 0) {
        EXPECT_EQ(parsed.content, shown(cut, GetParam())) << form.name;
      }
    }
    EXPECT_EQ(calls, 2u) << form.name;
  }
}

// Parts of all forms in any order: content and calls do not depend on the pieces, and no special token is shown.
TEST_P(ToolCallForms, RandomTextsAreTheSameInAnyPieces) {
  std::mt19937 random(9);
  const auto any = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  std::vector<std::string> parts{" ",           "\n",     "text", "<think>", "</think>",  "{", "}",
                                 "[",           "]",      "\"",   ",",       ";",         "é", "<function=now>",
                                 "</function>", "[ARGS]", "now",  "<",       "```json\n", "(", ")"};
  for (const Form& form : forms()) {
    for (const std::string& part : {form.before, form.behind, form.bad, form.write("now", Json::object()),
                                    form.write("weather", {{"city", "x"}})})
      if (!part.empty()) parts.push_back(part);
  }
  size_t calls = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text;
    for (size_t i = any(8) + 1; i > 0; --i) {
      const std::string& part = parts[any(parts.size())];
      text += any(4) ? part : part.substr(0, part.size() / 2);
    }
    const Parsed parsed = parse(text, GetParam());
    calls += parsed.calls.size();
    if (parsed.calls.empty()) {
      EXPECT_EQ(parsed.content, shown(text, GetParam()));
    }
    const std::string visible = shown(text, true);
    if (GetParam() && shown(visible, true) == visible) {  // else parts of text look like a mark
      EXPECT_EQ(shown(parsed.content, true), parsed.content) << text;
    }
  }
  EXPECT_GT(calls, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Marks, ToolCallForms, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "SpecialTokens" : "Text"); });

}  // namespace
}  // namespace transom
