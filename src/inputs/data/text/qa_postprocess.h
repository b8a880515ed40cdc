// SPDX-License-Identifier: Apache-2.0
// Extractive question answering: windows over long contexts, the tokens of an answer, and the answer of scores
// (run_qa).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A range of tokens or characters, the end not in it.
struct TextRange {
  int64_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

// The windows of at most `room` tokens over a context of `length`, each overlapping the one before by `stride`.
std::vector<TextRange> stride_windows(int64_t length, int64_t room, int64_t stride);

// One window as a tokenizer gives it: offsets in Unicode characters of the context; `in_context` is false for the
// question, special tokens and padding.
struct AnswerWindow {
  std::vector<TextRange> offsets;
  std::vector<bool> in_context;
  int64_t cls = 0;  // the token that stands for no answer
};

// The first and the last token of the answer `text_begin`..`text_end` (characters of the context); the cls token twice
// where the window has not all of it, or where there is no answer.
struct TokenSpan {
  int64_t start = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};
TokenSpan answer_tokens(const AnswerWindow& window, std::optional<TextRange> answer);

// The characters `range` of UTF-8 text.
std::string_view characters(std::string_view text, TextRange range);
int64_t count_characters(std::string_view text);

struct AnswerOptions {
  int64_t n_best = 20, max_answer_length = 30;
  bool may_be_empty = false;  // version_2_with_negative
  double null_score_diff_threshold = 0;
};

struct Answer {
  std::string text;
  TextRange where;  // characters of the context
  double score = 0, probability = 0;
  float start_score = 0, end_score = 0;  // whose sum is the score
};

// The best answers of one row from the scores of its windows, as run_qa finds them.
struct BestAnswers {
  // Best first: pairs of the n best starts and ends; probabilities are over all of them. With `may_be_empty` one is
  // empty, the last where its score is not among the best. Where nothing else can be an answer, the text "empty" of
  // score 0 stands before it.
  std::vector<Answer> answers;
  std::string text;       // the first; with `may_be_empty` none where that beats the best other one by the threshold
  double null_score = 0;  // of no answer: the least over the windows
  double null_odds = 0;   // how much better that is than the best answer that is one
};
struct WindowScores {
  const AnswerWindow* window;
  std::span<const float> start, end;  // one score a token
};
// `null_score` is that of no answer where a row has no windows: run_qa has the one of the row before.
BestAnswers best_answers(std::string_view context, std::span<const WindowScores> windows, const AnswerOptions& options,
                         double null_score = 0);

}  // namespace transom
