// SPDX-License-Identifier: Apache-2.0
// Forms of rows that other trainers and data sets have: each is read, or refused by name, and never in part.
#include "work/train/tasks/chats/chat_rows.h"

#include <gtest/gtest.h>

#include <ostream>

#include "base/files/files.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "work/train/tasks/preferences/preference_rows.h"

namespace transom {
namespace {

struct Form {
  const char *name, *file, *rows;
  const char* expected;  // the first row: prompt, completion; or what is said of it
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class RowForms : public testing::TestWithParam<Form> {
 protected:
  Dataset rows() const {
    write_file(work_.path() / GetParam().file, GetParam().rows);
    return Dataset::load(work_.path() / GetParam().file);
  }
  test::TemporaryFolder work_;
};

TEST_P(RowForms, AreReadOrRefused) {
  std::string found;
  const std::string message = test::message_of([&] {
    const ChatRow row = ChatRows(rows(), {}, /*writes_chats=*/true).row(0);
    found = dump_json(row.prompt) + " " + dump_json(row.completion);
  });
  EXPECT_NE((found + message).find(GetParam().expected), std::string::npos) << found << message;
}

constexpr Form kForms[] = {
    {"SystemBesideMessages", "rows.jsonl",
     R"({"system": "Be brief", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]})",
     R"([{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])"},
    {"SystemTwice", "rows.jsonl",
     R"({"system": "A", "messages": [{"role": "system", "content": "B"}, {"role": "assistant", "content": "Ho"}]})",
     "expected one system text"},
    {"SystemThatIsEmpty", "rows.jsonl",
     R"({"system": "", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]})",
     R"(null [{"role": "user", "content": "Hi"},)"},
    {"SystemBesideAPromptOfMessages", "rows.jsonl",
     R"({"system": "A", "prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Ho"}]})",
     R"([{"role": "system", "content": "A"}, {"role": "user", "content": "Hi"}] [{"role": "assistant", "content": "Ho"}])"},
    {"SystemBesideAText", "rows.jsonl", R"({"system": "A", "prompt": "Hi", "completion": "Ho"})", "column system"},
    {"MessageWithoutWeight", "rows.jsonl",
     R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho", "weight": 0}]})",
     "row 1: message 2: weight"},
    {"MessageWithoutLoss", "rows.jsonl",
     R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho", "loss": false}]})",
     "message 2: loss"},
    {"History", "rows.jsonl", R"({"instruction": "Hi", "output": "Ho", "history": [["a", "b"]]})", "column history"},
    {"HistoryThatIsEmpty", "rows.jsonl", R"({"instruction": "Hi", "output": "Ho", "history": []})",
     R"([{"role": "user", "content": "Hi"}] [{"role": "assistant", "content": "Ho"}])"},
    {"AnswerThatIsNull", "rows.jsonl", R"({"instruction": "Hi", "output": null}
{"instruction": "Hi", "output": "Ho"})",
     "column output: expected a text, found 'null'"},
    {"PromptAboutJson", "rows.jsonl", R"({"prompt": "[{\"a\": 1}] is what?", "completion": "[{\"a\": 1}]"})",
     R"("[{\"a\": 1}] is what?" "[{\"a\": 1}]")"},
    {"MessagesAsText", "rows.jsonl",
     R"({"messages": "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Ho\"}]"})",
     R"([{"role": "user", "content": "Hi"},)"},
    {"NumbersInCells", "rows.csv", "prompt,completion\n007,1.50\n1,2\n", R"("007" "1.50")"},
    {"NothingInCells", "rows.csv", "prompt,completion\nNA,null\nNA,null\n", R"("NA" "null")"},
    {"InstructionsInCells", "rows.csv", "instruction,input,output\n007,,NA\n1,,NA\n",
     R"([{"role": "user", "content": "007"}] [{"role": "assistant", "content": "NA"}])"},
};

INSTANTIATE_TEST_SUITE_P(All, RowForms, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

TEST(PreferenceRows, TakeCellsAsTheyAreWrittenAndASystemText) {
  const test::TemporaryFolder work;
  write_file(work.path() / "a.csv", "prompt,chosen,rejected\n007,1.50,NA\n");
  const PreferenceRow cells = PreferenceRows(Dataset::load(work.path() / "a.csv"), true).row(0);
  EXPECT_EQ(cells.prompt, "007");
  EXPECT_EQ(cells.chosen, "1.50");
  EXPECT_EQ(cells.rejected, "NA");
  write_file(work.path() / "b.jsonl",
             R"({"system": "A", "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],)"
             R"( "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]})");
  const PreferenceRow chat = PreferenceRows(Dataset::load(work.path() / "b.jsonl"), true).row(0);
  EXPECT_EQ(dump_json(chat.prompt), R"([{"role": "system", "content": "A"}, {"role": "user", "content": "a"}])");
  write_file(work.path() / "c.csv", "prompt,completion,label\n007,1.50,true\n");
  const AnswerRow answer = AnswerRows(Dataset::load(work.path() / "c.csv")).row(0);
  EXPECT_EQ(answer.completion, "1.50");
}

}  // namespace
}  // namespace transom
