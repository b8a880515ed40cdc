// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/qa_postprocess.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace transom {

std::vector<TextRange> stride_windows(int64_t length, int64_t room, int64_t stride) {
  require(room > stride && stride >= 0,
          "doc_stride: expected an overlap below the {} tokens that a window leaves for the context, found {}", room,
          stride);
  std::vector<TextRange> windows;
  for (int64_t begin = 0;; begin += room - stride) {
    windows.push_back({begin, std::min(begin + room, length)});
    if (begin + room >= length) return windows;
  }
}

TokenSpan answer_tokens(const AnswerWindow& window, std::optional<TextRange> answer) {
  const TokenSpan none{window.cls, window.cls};
  if (!answer) return none;
  int64_t first = -1, last = -1;  // the tokens of the context
  for (size_t i = 0; i < window.in_context.size(); ++i) {
    if (!window.in_context[i]) continue;
    if (first < 0) first = static_cast<int64_t>(i);
    last = static_cast<int64_t>(i);
  }
  const auto offset = [&](int64_t token) { return window.offsets[static_cast<size_t>(token)]; };
  if (first < 0 || offset(first).begin > answer->begin || offset(last).end < answer->end) return none;
  TokenSpan span{first, last};
  while (span.start < last && offset(span.start + 1).begin <= answer->begin) ++span.start;
  while (span.end > first && offset(span.end - 1).end >= answer->end) --span.end;
  return span;
}

namespace {

// The byte at which character `count` begins.
size_t byte_of(std::string_view text, int64_t count) {
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && count-- == 0) return i;
  }
  return i;
}

struct Candidate {
  TextRange where;
  float start = 0, end = 0;
  double score() const { return start + end; }
};

// The positions of the `count` largest scores, best first; of equal ones the later first, as numpy's argsort gives them
// from its end.
std::vector<size_t> largest(std::span<const float> scores, int64_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto kept = std::min(order.size(), static_cast<size_t>(count));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a > b; });
  order.resize(kept);
  return order;
}

}  // namespace

std::string_view characters(std::string_view text, TextRange range) {
  const size_t begin = byte_of(text, range.begin);
  return text.substr(begin, byte_of(text.substr(begin), std::max<int64_t>(range.end - range.begin, 0)));
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

BestAnswers best_answers(std::string_view context, std::span<const WindowScores> windows, const AnswerOptions& options,
                         double null_score) {
  std::vector<Candidate> candidates;
  std::optional<Candidate> no_answer;  // the least over the windows
  for (const WindowScores& each : windows) {
    const AnswerWindow& window = *each.window;
    require(each.start.size() == each.end.size() && each.start.size() >= window.offsets.size() &&
                window.cls < static_cast<int64_t>(each.start.size()),
            "answers: expected scores of {} tokens, found {} and {}", window.offsets.size(), each.start.size(),
            each.end.size());
    const Candidate null{
        {0, 0}, each.start[static_cast<size_t>(window.cls)], each.end[static_cast<size_t>(window.cls)]};
    if (!no_answer || null.score() < no_answer->score()) no_answer = null;
    for (const size_t start : largest(each.start, options.n_best))
      for (const size_t end : largest(each.end, options.n_best)) {
        if (end < start || static_cast<int64_t>(end - start) >= options.max_answer_length) continue;
        if (end >= window.offsets.size() || !window.in_context[start] || !window.in_context[end]) continue;
        candidates.push_back(
            {{window.offsets[start].begin, window.offsets[end].end}, each.start[start], each.end[end]});
      }
  }
  if (options.may_be_empty && no_answer) candidates.push_back(*no_answer);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.score() > b.score(); });
  if (static_cast<int64_t>(candidates.size()) > options.n_best) {
    candidates.resize(static_cast<size_t>(options.n_best));
    const bool has_null =
        std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.where == TextRange{}; });
    if (options.may_be_empty && !has_null) candidates.push_back(*no_answer);
  }

  BestAnswers best{.null_score = no_answer ? no_answer->score() : null_score};
  std::vector<Answer>& answers = best.answers;
  for (const Candidate& candidate : candidates)
    answers.push_back({std::string(characters(context, candidate.where)), candidate.where, candidate.score(), 0,
                       candidate.start, candidate.end});
  if (answers.empty() || (answers.size() == 1 && answers[0].text.empty())) answers.insert(answers.begin(), {"empty"});
  double highest = answers[0].score, sum = 0;
  for (const Answer& answer : answers) highest = std::max(highest, answer.score);
  for (Answer& answer : answers) sum += answer.probability = std::exp(answer.score - highest);
  for (Answer& answer : answers) answer.probability /= sum;
  best.text = answers[0].text;
  if (!options.may_be_empty) return best;
  const auto other =
      std::find_if_not(answers.begin(), answers.end(), [](const Answer& answer) { return answer.text.empty(); });
  if (other == answers.end()) return best;
  best.null_odds = best.null_score - other->score;
  best.text = best.null_odds > options.null_score_diff_threshold ? "" : other->text;
  return best;
}

}  // namespace transom
