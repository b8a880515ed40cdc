// SPDX-License-Identifier: Apache-2.0
// Ids of calls in the form that the template of the model takes.
#include "apps/serve/tools/call_ids.h"

#include <gtest/gtest.h>

#include "support/scripted_model.h"

namespace transom {
namespace {

using serve::CallIds;

// As in the templates of Mistral 7B v0.3, Nemo and Ministral.
constexpr const char* kOfMistral =
    "{%- for message in messages %}{%- for call in message.tool_calls or [] %}"
    "{%- if not call.id is defined or call.id|length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric "
    "strings with length 9!') }}{%- endif %}[{{ call.id }}]{%- endfor %}{%- if message.role == 'tool' %}"
    "{%- if message.tool_call_id|length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with "
    "length 9!') }}{%- endif %}({{ message.tool_call_id }}){%- endif %}{%- endfor %}";
constexpr const char* kOfKimi =
    "{%- for message in messages %}{%- for call in message.tool_calls or [] %}<|tool_call_begin|>{{ call['id'] }}"
    "<|tool_call_argument_begin|>{{ call.function.arguments|tojson }}{%- endfor %}{%- if message.role == 'tool' %}"
    "## Return of {{ message.tool_call_id }}{%- endif %}{%- endfor %}";
constexpr const char* kOfQwen = "{%- for message in messages %}{{ message.role }}{%- endfor %}";

CallIds::Form form_of(const std::string& chat_template) {
  static const Tokenizer tokenizer = Tokenizer::from_json(dump_json(test::byte_tokenizer({"</s>"}, {})));
  ChatOptions options;
  options.chat_template = chat_template;
  return serve::call_id_form(tokenizer, options);
}

TEST(CallIds, HaveTheFormThatTheTemplateTakes) {
  EXPECT_EQ(form_of(kOfMistral), CallIds::kNineCharacters);
  EXPECT_EQ(form_of(kOfKimi), CallIds::kFunctionAndNumber);
  EXPECT_EQ(form_of(kOfQwen), CallIds::kAny);
  EXPECT_EQ(form_of("{{ raise_exception('no') }}"), CallIds::kAny);
}

TEST(CallIds, OfAnswersGoOnWhereTheConversationIs) {
  EXPECT_TRUE((CallIds{}.make("f", 0, "abcdefgh1").starts_with("call_")));
  const CallIds mistral{CallIds::kNineCharacters, 0};
  EXPECT_EQ(mistral.make("f", 0, "abcdefgh1"), "abcdefgh1");
  EXPECT_EQ(mistral.make("f", 0, "call_1").size(), 9u);
  EXPECT_NE(mistral.make("f", 0, ""), mistral.make("f", 0, ""));
  const CallIds kimi{CallIds::kFunctionAndNumber, 2};
  EXPECT_EQ(kimi.make("f", 1, ""), "functions.f:3");
  EXPECT_EQ(kimi.make("f", 1, "functions.f:7"), "functions.f:7");
}

Json call(const Json& id, const std::string& name) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", Json::object()}}}};
}

Json conversation() {
  return {{{"role", "user"}, {"content", "a"}},
          {{"role", "assistant"},
           {"content", ""},
           {"tool_calls", {call("call_of_another_server", "f"), call("abcdefgh1", "g")}}},
          {{"role", "tool"}, {"tool_call_id", "abcdefgh1"}, {"content", "1"}},
          {{"role", "tool"}, {"tool_call_id", "call_of_another_server"}, {"content", "2"}},
          {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call(nullptr, "f"), call(nullptr, "f")}}},
          {{"role", "tool"}, {"content", "3"}},
          {{"role", "tool"}, {"content", "4"}}};
}

TEST(CallIds, OfOtherFormsAreReplacedTogether) {
  Json messages = conversation();
  const CallIds mistral = serve::fit_call_ids(messages, CallIds::kNineCharacters);
  EXPECT_EQ(mistral.known, 4);
  const auto id = [&](size_t message, size_t number) {
    return messages[message]["tool_calls"][number]["id"].get<std::string>();
  };
  EXPECT_EQ(id(1, 0).size(), 9u);
  EXPECT_EQ(id(1, 1), "abcdefgh1");
  EXPECT_EQ(messages[2]["tool_call_id"], id(1, 1));
  EXPECT_EQ(messages[3]["tool_call_id"], id(1, 0));
  EXPECT_NE(id(4, 0), id(4, 1));
  EXPECT_EQ(messages[5]["tool_call_id"], id(4, 0));
  EXPECT_EQ(messages[6]["tool_call_id"], id(4, 1));
  Json again = conversation();  // the prompt of the next turn begins with the same tokens
  serve::fit_call_ids(again, CallIds::kNineCharacters);
  EXPECT_EQ(again, messages);

  messages = conversation();
  serve::fit_call_ids(messages, CallIds::kFunctionAndNumber);
  EXPECT_EQ(id(1, 0), "functions.f:0");
  EXPECT_EQ(id(4, 1), "functions.f:3");
  EXPECT_EQ(messages[3]["tool_call_id"], "functions.f:0");
  EXPECT_EQ(messages[6]["tool_call_id"], "functions.f:3");

  messages = conversation();
  EXPECT_EQ(serve::fit_call_ids(messages, CallIds::kAny).form, CallIds::kAny);
  EXPECT_EQ(messages, conversation());
}

}  // namespace
}  // namespace transom
