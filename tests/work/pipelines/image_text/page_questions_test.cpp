// SPDX-License-Identifier: Apache-2.0
// document-question-answering from words and boxes, beside what tests/golden/pipelines holds: what is refused.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

const char* const kAsked = R"({"image": "page.png", "question": "what is free ?"})";

std::string answers(const char* model, const std::string& options) {
  const auto pipeline = make_pipeline("document-question-answering", (test::folder_of_case(model) / "model").string());
  return dump_json(run_pipeline(*pipeline, parse_json(kAsked, "asked"), parse_json(options, "options")));
}

std::string told(const std::string& options) {
  return test::message_of([&] { answers("layoutlm-question-answering", options); });
}

TEST(PageQuestions, RefuseWordsAndBoxesThatDoNotFit) {
  EXPECT_NE(told("{}").find("word_boxes: expected the words of the page"), std::string::npos);
  EXPECT_NE(told(R"({"word_boxes": []})").find("word_boxes"), std::string::npos);
  for (const char* wrong :
       {R"("free")", R"(["free"])", R"([7, [0, 0, 1, 1]])", R"(["free", [0, 0, 1]])", R"(["free", [0, 0, 1001, 1]])",
        R"(["free", [-1, 0, 1, 1]])", R"(["free", [5, 0, 1, 1]])", R"(["free", [0, 0, "1", 1]])"})
    EXPECT_NE(told(fmt::format(R"({{"word_boxes": [{}]}})", wrong)).find("expected a word and its box"),
              std::string::npos)
        << wrong;
}

TEST(PageQuestions, RefuseOptionsWithoutEffect) {
  EXPECT_NE(told(R"({"word_boxes": [["free", [0, 0, 1, 1]]], "max_new_tokens": 4})").find("max_new_tokens"),
            std::string::npos);
  EXPECT_NE(told(R"({"word_boxes": [["free", [0, 0, 1, 1]]], "max_answer_len": 0})").find("max_answer_len"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              answers("donut", R"({"word_boxes": [["free", [0, 0, 1, 1]]]})");
            }).find("word_boxes: has no effect"),
            std::string::npos);
}

TEST(PageQuestions, BoxesHaveAnEffect) {
  const std::string first = R"({"word_boxes": [["free", [0, 0, 1, 1]], ["may", [4, 4, 9, 9]]], "max_seq_len": 40})",
                    other = R"({"word_boxes": [["free", [0, 0, 1, 1]], ["may", [4, 900, 9, 999]]], "max_seq_len": 40})";
  EXPECT_NE(answers("layoutlm-question-answering", first), answers("layoutlm-question-answering", other));
}

}  // namespace
}  // namespace transom
