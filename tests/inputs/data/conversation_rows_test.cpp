// SPDX-License-Identifier: Apache-2.0
// Rows of other trainers: none may be trained on as if its JSON, or a part of it, were the text.
#include "inputs/data/text/conversation_rows.h"

#include <gtest/gtest.h>

#include "inputs/data/columns.h"
#include "inputs/data/text/text_pairs.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

constexpr const char* kMessages = R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}])";

std::string form_of(const std::string& row) {
  const test::TemporaryFolder folder;
  return conversation_form(Dataset::load(folder.write("a.jsonl", row)));
}

TEST(ConversationRows, AreKnownByTheirColumns) {
  for (const char* name : {"messages", "conversations", "prompt"})
    EXPECT_EQ(form_of(std::string("{\"") + name + "\": " + kMessages + "}"), "chats") << name;
  EXPECT_EQ(form_of(R"({"prompt": "a", "completion": "b"})"), "prompts and completions");
  EXPECT_EQ(form_of(R"({"instruction": "a", "input": "", "output": "b"})"), "instructions and answers");
  EXPECT_EQ(form_of(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"), "preferences");
  EXPECT_EQ(form_of(R"({"prompt": "a"})"), "");
  EXPECT_EQ(form_of(R"({"messages": "a text", "label": 1})"), "");
  const test::TemporaryFolder folder;
  const auto csv = folder.write("a.csv", "messages,label\n\"[{\"\"role\"\": \"\"user\"\"}]\",1\n");
  EXPECT_EQ(conversation_form(Dataset::load(csv)), "chats");
}

// In every task that reads text, in every kind of file, unless a column is named.
TEST(ConversationRows, AreRefusedByEveryReaderOfText) {
  const test::TemporaryFolder folder;
  const std::string chat = std::string("{\"messages\": ") + kMessages + "}\n";
  const std::string of_others = "which --task sft trains on; for another task name one column of text with ";
  const std::pair<std::string, std::string> rows[] = {
      {chat, "a.jsonl: found chats (columns messages), "},
      {R"({"prompt": "a", "completion": "b"})",
       "a.jsonl: found prompts and completions (columns prompt, completion), "},
      {R"({"instruction": "a", "input": "", "output": "b"})",
       "a.jsonl: found instructions and answers (columns instruction, input, output), "},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       "a.jsonl: found preferences (columns prompt, chosen, rejected), "}};
  const std::string of_preferences =
      "which --task dpo, kto, orpo or cpo train a policy on, and --task reward a reward model; name one of them, or "
      "for "
      "another task one column of text with ";
  for (const auto& [text, begins] : rows) {
    const std::string begin = begins, end = begins.find("preferences") == begins.npos ? of_others : of_preferences;
    const Dataset data = Dataset::load(folder.write("a.jsonl", text));
    EXPECT_EQ(test::message_without_folders([&] { text_column(data, {}); }), begin + end + "--text_column_name");
    EXPECT_EQ(test::message_without_folders([&] { classification_columns(data, {}); }),
              begin + end + "--text_column_name");
    if (data.columns()[0].name != "prompt" || data.columns().size() > 2) {
      EXPECT_EQ(test::message_without_folders([&] { text_pair_columns(data, {}); }),
                begin + end + "--text_column and --summary_column");
    }
    ScriptArguments named;
    named.text_column_name = data.columns()[0].name;
    EXPECT_EQ(text_column(data, named), 0U);
  }
  const Dataset data = Dataset::load(folder.write("a.jsonl", chat));
  EXPECT_EQ(test::message_without_folders([&] { data.with_text(0); }),
            "a.jsonl: row 1, column 'messages': expected text, found a list of lists, objects or several types");
}

TEST(ConversationRows, ColumnsOfMessagesThatHoldNoneAreNamedWithTheirRow) {
  const test::TemporaryFolder folder;
  const auto said = [&](const std::string& rows) {
    const Dataset data = Dataset::load(folder.write("a.jsonl", rows));
    return test::message_without_folders([&] { need_label(classification_columns(data, {}), data); });
  };
  const std::string begins = "a.jsonl: row 1: column messages: expected a list of messages, objects with role and ";
  EXPECT_TRUE(said(R"({"messages": "hi"})").starts_with(begins + "content, found a text; "))
      << said(R"({"messages": "hi"})");
  EXPECT_TRUE(said(R"({"messages": []})").starts_with(begins + "content, found a list without them; "));
  EXPECT_EQ(said(R"({"messages": "a text of a class", "label": 1})"), "");
}

}  // namespace
}  // namespace transom
