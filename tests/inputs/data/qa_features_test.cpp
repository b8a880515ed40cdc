// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/qa_features.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

// The same two questions, the second without an answer, in every shape.
constexpr const char* kSquad =
    R"({"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": "Ännchen is in Rome.",
  "qas": [{"id": "q1", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 14}, {"text": "in Rome", "answer_start": 11}]},
          {"id": "q2", "question": "Who?", "is_impossible": true, "answers": []}]}]}]})";
constexpr const char* kObjects =
    R"({"id": "q1", "context": "Ännchen is in Rome.", "question": "Where?", "answers": {"text": ["Rome", "in Rome"], "answer_start": [14, 11]}}
{"id": "q2", "context": "Ännchen is in Rome.", "question": "Who?", "answers": {"text": [], "answer_start": []}})";
constexpr const char* kLists =
    R"([{"id": "q1", "context": "Ännchen is in Rome.", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 14}, {"text": "in Rome", "answer_start": 11}]},
{"id": "q2", "context": "Ännchen is in Rome.", "question": "Who?", "answers": []}])";
constexpr const char* kCsv =
    "id,context,question,answers\n"
    "q1,Ännchen is in Rome.,Where?,\"{\"\"text\"\": [\"\"Rome\"\", \"\"in Rome\"\"], \"\"answer_start\"\": [14, "
    "11]}\"\n"
    "q2,Ännchen is in Rome.,Who?,\"{\"\"text\"\": [], \"\"answer_start\"\": []}\"\n";

TEST(Questions, AreTheSameInEveryShape) {
  const test::TemporaryFolder folder;
  for (const auto& [name, text] : {std::pair("squad.json", kSquad), std::pair("objects.jsonl", kObjects),
                                   std::pair("lists.json", kLists), std::pair("rows.csv", kCsv)}) {
    const Dataset data = Dataset::load(folder.write(name, text));
    EXPECT_TRUE(Questions::fits(data)) << name;
    const Questions questions(data);
    ASSERT_EQ(questions.size(), 2) << name;
    EXPECT_TRUE(questions.has_answers()) << name;
    const Question first = questions[0], second = questions[1];
    EXPECT_EQ(first.id, "q1") << name;
    EXPECT_EQ(first.question, "Where?") << name;
    EXPECT_EQ(first.context, "Ännchen is in Rome.") << name;
    EXPECT_EQ(first.answers, (std::vector<std::string>{"Rome", "in Rome"})) << name;
    EXPECT_EQ(first.first, (TextRange{14, 18})) << name;
    EXPECT_EQ(second.id, "q2") << name;
    EXPECT_TRUE(second.answers.empty()) << name;
    EXPECT_FALSE(second.first.has_value()) << name;
    EXPECT_EQ(questions.first(1).size(), 1) << name;
  }
}

TEST(Questions, MayHaveNoAnswersAndNoIds) {
  const test::TemporaryFolder folder;
  const Questions questions(Dataset::load(folder.write("plain.csv", "question,context\nWho?,Ann.\nWhere?,Rome.\n")));
  EXPECT_FALSE(questions.has_answers());
  EXPECT_EQ(questions[1].id, "1");
}

TEST(Questions, RefusalsNameTheRowAndTheColumn) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& name, const char* text) {
    return test::message_without_folders([&] { Questions(Dataset::load(folder.write(name, text)))[0]; });
  };
  EXPECT_TRUE(read("a.json", R"({"data": [{"paragraphs": [{"context": "x"}]}]})")
                  .starts_with("a.json: row 1, column 'paragraphs': expected SQuAD's paragraphs with context and qas"));
  EXPECT_TRUE(read("b.jsonl", R"({"context": "x", "question": "y", "answers": [{"text": "x"}]})")
                  .starts_with("b.jsonl: row 1, column 'answers': expected answers with text and answer_start"));
  EXPECT_EQ(
      read("c.jsonl", R"({"context": "x", "question": "y", "answers": {"text": ["x", "y"], "answer_start": [0]}})"),
      "c.jsonl: row 1: expected answers with text and answer_start for each, found 2 texts and 1 starts");
}

}  // namespace
}  // namespace transom
