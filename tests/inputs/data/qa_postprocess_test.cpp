// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/qa_postprocess.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

// [CLS] who [SEP] the old tower [SEP]
const AnswerWindow kWindow = {
    {{0, 0}, {0, 3}, {0, 0}, {0, 3}, {4, 7}, {8, 13}, {0, 0}}, {false, false, false, true, true, true, false}, 0};
constexpr std::string_view kContext = "the old tower";

TEST(Answers, WindowsOverlap) {
  EXPECT_EQ(stride_windows(10, 4, 2), (std::vector<TextRange>{{0, 4}, {2, 6}, {4, 8}, {6, 10}}));
  EXPECT_EQ(stride_windows(3, 4, 2), (std::vector<TextRange>{{0, 3}}));
  EXPECT_EQ(stride_windows(0, 4, 0), (std::vector<TextRange>{{0, 0}}));
  EXPECT_THROW(stride_windows(10, 4, 4), Error);
}

TEST(Answers, TokensOfAnAnswer) {
  EXPECT_EQ(answer_tokens(kWindow, TextRange{4, 13}), (TokenSpan{4, 5}));
  EXPECT_EQ(answer_tokens(kWindow, TextRange{5, 6}), (TokenSpan{4, 4}));
  EXPECT_EQ(answer_tokens(kWindow, TextRange{0, 13}), (TokenSpan{3, 5}));
  EXPECT_EQ(answer_tokens(kWindow, TextRange{8, 14}), (TokenSpan{0, 0}));  // ends behind the window
  EXPECT_EQ(answer_tokens(kWindow, std::nullopt), (TokenSpan{0, 0}));
}

TEST(Answers, CharactersAreNotBytes) {
  EXPECT_EQ(characters("h\u00e9llo w\u00f6rld", {1, 4}), "\u00e9ll");
  EXPECT_EQ(characters("h\u00e9", {1, 9}), "\u00e9");
  EXPECT_EQ(characters("abc", {5, 9}), "");
  EXPECT_EQ(count_characters("h\u00e9llo"), 5);
}

TEST(Answers, BestOfTheScores) {
  const std::vector<float> start = {1, 9, 0, 0, 3, 1, 0}, end = {1, 9, 0, 0, 1, 4, 0};
  const WindowScores scores[] = {{&kWindow, start, end}};
  std::vector<Answer> answers = best_answers(kContext, scores, {}).answers;
  EXPECT_EQ(answers[0].text, "old tower");
  EXPECT_EQ(answers[0].where, (TextRange{4, 13}));
  EXPECT_EQ(answers[0].score, 7);
  EXPECT_GT(answers[0].probability, answers[1].probability);
  EXPECT_EQ(best_answers(kContext, scores, {.max_answer_length = 1}).text, "tower");

  const BestAnswers best = best_answers(kContext, scores, {.n_best = 4, .may_be_empty = true});
  answers = best.answers;
  EXPECT_EQ(best.text, "old tower");
  EXPECT_EQ(best.null_odds, 2 - 7);
  EXPECT_TRUE(std::any_of(answers.begin(), answers.end(), [](const Answer& a) { return a.text.empty(); }));
  EXPECT_EQ(best_answers(kContext, scores, {.may_be_empty = true, .null_score_diff_threshold = -6}).text, "");
  EXPECT_THROW(best_answers(kContext, std::vector<WindowScores>{{&kWindow, std::span(start).first(2), end}}, {}),
               Error);
}

// As run_qa's files have them: "empty" before an empty answer of a higher score, and where --max_eval_samples left a
// row without windows, the score of no answer is that of the row before.
TEST(Answers, WhereNothingIsAnAnswer) {
  const std::vector<float> start = {1, 9, 9, 0, 0, 0, 0}, end = {1, 9, 9, 0, 0, 0, 0};
  const AnswerOptions options{.n_best = 2, .may_be_empty = true};
  const WindowScores scores[] = {{&kWindow, start, end}};
  const BestAnswers none = best_answers(kContext, scores, options);
  ASSERT_EQ(none.answers.size(), 2u);
  EXPECT_EQ(none.answers[0].text, "empty");
  EXPECT_EQ(none.answers[0].score, 0);
  EXPECT_EQ(none.answers[1].score, 2);
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.null_odds, 2);

  const BestAnswers left_out = best_answers(kContext, {}, options, 1.5);
  ASSERT_EQ(left_out.answers.size(), 1u);
  EXPECT_EQ(left_out.text, "");
  EXPECT_EQ(left_out.null_odds, 1.5);
  EXPECT_EQ(best_answers(kContext, {}, options, -1.5).text, "empty");
  EXPECT_EQ(best_answers(kContext, {}, {}, 1.5).text, "empty");
}

}  // namespace
}  // namespace transom
