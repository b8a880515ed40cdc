// SPDX-License-Identifier: Apache-2.0
// Answers to a question from a context that may be longer than the model's input.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "inputs/data/text/qa_postprocess.h"
#include "inputs/text/unicode/unicode.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

struct Candidate {
  double score;
  TextRange where;  // characters of the context
};

class QuestionAnswering : public Pipeline {
 public:
  explicit QuestionAnswering(TextModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score, top_k of them.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const int64_t limit = model_.max_length().value_or(0), wanted = int_option(options, "max_seq_len", 384);
    const int64_t length = limit > 0 ? std::min(limit, wanted) : wanted;
    const EncodeOptions encoding{.truncation = Truncation::kOnlySecond,
                                 .max_length = length,
                                 .stride = int_option(options, "doc_stride", std::min<int64_t>(length / 2, 128)),
                                 .return_overflowing_tokens = true};
    std::vector<const QuestionInput*> given;
    for (const TaskInput& input : inputs) {
      given.push_back(std::get_if<QuestionInput>(&input));
      if (!given.back()) fail("expected a question with a context, found {}", name_of(input));
    }
    const auto encode = [&](size_t i) {
      return windows_of(model_.tokenizer.encode(given[i]->question, given[i]->context, encoding));
    };
    auto windows = model_.rows(inputs.size(), encode, {"start_logits", "end_logits"}, TextModel::Unit::kToken,
                               batch_size_of(options));
    std::vector<TaskResult> results;
    for (size_t i = 0; i < inputs.size(); ++i) results.emplace_back(answers(given[i]->context, windows[i], options));
    return results;
  }

 private:
  // As the last pipeline of Transformers that had the task (4.57): of each window the likeliest spans, more of them
  // where words are joined, and those whose texts differ in case at most are one answer, with the sum of their scores.
  static std::vector<AnswerSpan> answers(const std::string& context, std::vector<TextModel::Row>& windows,
                                         const TaskOptions& options) {
    const int64_t longest = std::max<int64_t>(1, int_option(options, "max_answer_len", 15));
    const auto count = static_cast<size_t>(std::max<int64_t>(1, int_option(options, "top_k", 1)));
    const bool words = flag_option(options, "align_to_words", true),
               impossible = flag_option(options, "handle_impossible_answer", false);
    std::vector<Candidate> merged;
    std::map<std::string, size_t> places;
    double no_answer = 1;
    for (TextModel::Row& window : windows)
      for (const Candidate& each :
           candidates_of(window, longest, words, impossible, words ? 2 * count + 10 : count, no_answer)) {
        const auto [place, fresh] = places.emplace(small_letters(characters(context, each.where)), merged.size());
        if (fresh) merged.push_back(each);
        else merged[place->second].score += each.score;
      }
    if (impossible) merged.push_back({no_answer, {0, 0}});
    std::stable_sort(merged.begin(), merged.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    std::vector<AnswerSpan> result;
    for (size_t i = 0; i < std::min(count, merged.size()); ++i)
      result.push_back({std::string(characters(context, merged[i].where)), merged[i].score, merged[i].where.begin,
                        merged[i].where.end});
    if (result.empty()) fail("question-answering: the context has no token");
    return result;
  }

  static std::string small_letters(std::string_view given) {
    const std::string formed = text::well_formed(given);
    std::string small;
    for (size_t at = 0; at < formed.size();)
      for (const char32_t c : text::lower_case(text::next_character(formed, at))) text::append_character(small, c);
    return small;
  }

  // The `most` likeliest spans, best first.
  static std::vector<Candidate> candidates_of(TextModel::Row& window, int64_t longest, bool words, bool impossible,
                                              size_t most, double& no_answer) {
    const Encoding& e = window.encoding;
    std::vector<float>&start = window.outputs[0], &end = window.outputs[1];  // logits [T]
    // Probabilities are over the context alone (and the first token, if there may be no answer).
    for (size_t i = 0; i < e.size(); ++i)
      if (e.sequence_ids[i] != 1 && !(impossible && i == 0)) start[i] = end[i] = -10000;
    const std::vector<double> starts = softmax_of(start), ends = softmax_of(end);
    if (impossible) no_answer = std::min(no_answer, starts[0] * ends[0]);
    struct Span {
      double score;
      size_t first, last;
    };
    std::vector<Span> spans;
    for (size_t i = 0; i < e.size(); ++i) {
      if (e.sequence_ids[i] != 1) continue;
      for (size_t k = i; k < std::min(e.size(), i + static_cast<size_t>(longest)); ++k)
        if (e.sequence_ids[k] == 1) spans.push_back({starts[i] * ends[k], i, k});
    }
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.score > b.score; });
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < std::min(most, spans.size()); ++i)
      candidates.push_back({spans[i].score, where(e, spans[i].first, spans[i].last, words)});
    return candidates;
  }

  static TextRange where(const Encoding& e, size_t first, size_t last, bool words) {
    if (words) {
      const auto same = [&](size_t a, size_t b) { return e.sequence_ids[a] == 1 && e.word_ids[a] == e.word_ids[b]; };
      while (first > 0 && same(first - 1, first)) --first;
      while (last + 1 < e.size() && same(last + 1, last)) ++last;
    }
    return {e.offsets[first].first, e.offsets[last].second};
  }

  TextModel model_;
};

TaskParameters question_answering_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of answers to return", "1"},
      {"max_answer_len", TaskParameter::Type::kInteger, "maximum number of tokens of an answer", "15"},
      {"max_seq_len", TaskParameter::Type::kInteger,
       "maximum number of tokens of question and context together; longer contexts are split", "384"},
      {"doc_stride", TaskParameter::Type::kInteger, "tokens that two parts of a long context share",
       "min(max_seq_len / 2, 128)"},
      {"align_to_words", TaskParameter::Type::kFlag, "answers are whole words", "true"},
      {"handle_impossible_answer", TaskParameter::Type::kFlag, "the answer may be none", "false"},
  };
}

constexpr TaskRecord kQuestionAnswering{.name = "question-answering",
                                        .example = "--question \"Who?\" --context \"Ada wrote it.\"",
                                        .input = InputKind::kQuestion,
                                        .result = ResultKind::kAnswers,
                                        .json = {.unwraps = [](const TaskOptions&, const CallForm&) { return true; }},
                                        .parameters = question_answering_parameters,
                                        .load = load_text_task<QuestionAnswering>};
const RegisterTask kRegisterQuestionAnswering(kQuestionAnswering);

}  // namespace
}  // namespace transom
