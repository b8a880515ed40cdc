// SPDX-License-Identifier: Apache-2.0
// Answers to a question from a context that may be longer than the model's input.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "data/answers.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

struct Candidate {
  double score;
  Range where;  // characters of the context
};

class QuestionAnswering : public Pipeline {
 public:
  explicit QuestionAnswering(TextModel model) : model_(std::move(model)) {}
  std::vector<std::string> parameter_names() const override {
    return {"top_k", "max_answer_len", "max_seq_len", "doc_stride", "align_to_words", "handle_impossible_answer"};
  }

  // {"score", "start", "end", "answer"}; a list of them if top_k is above 1.
  Json run(const Json& input, const Json& parameters) const override {
    if (!input.is_object())
      fail("question-answering: expected an object with question and context, found {}", quoted(dump_json(input)));
    const std::string question = text_input(input, "question"), context = text_input(input, "context");
    const int64_t longest = std::max<int64_t>(1, int_parameter(parameters, "max_answer_len", 15));
    const auto count = static_cast<size_t>(std::max<int64_t>(1, int_parameter(parameters, "top_k", 1)));
    const bool words = bool_parameter(parameters, "align_to_words", true),
               impossible = bool_parameter(parameters, "handle_impossible_answer", false);
    const int64_t limit = model_.max_length().value_or(0), wanted = int_parameter(parameters, "max_seq_len", 384);
    const EncodeOptions options{.truncation = Truncation::kOnlySecond,
                                .max_length = limit > 0 ? std::min(limit, wanted) : wanted,
                                .stride = int_parameter(parameters, "doc_stride", 128),
                                .return_overflowing_tokens = true};
    Encoding first = model_.tokenizer.encode(question, context, options);
    std::vector<Encoding> windows = std::move(first.overflowing);
    windows.insert(windows.begin(), std::move(first));
    std::vector<Candidate> candidates;
    double no_answer = 1;
    const int64_t batch_size = batch_size_of(parameters);
    std::vector<Ends> ends;
    for (size_t first = 0; first < windows.size(); first += static_cast<size_t>(batch_size))
      add_ends(windows, first, batch_size, ends);
    for (size_t i = 0; i < windows.size(); ++i)
      add_candidates(windows[i], ends[i], longest, words, impossible, candidates, no_answer);
    if (impossible) candidates.push_back({no_answer, {0, 0}});
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    Json result = Json::array();
    for (size_t i = 0; i < std::min(count, candidates.size()); ++i)
      result.push_back({{"score", candidates[i].score},
                        {"start", candidates[i].where.begin},
                        {"end", candidates[i].where.end},
                        {"answer", std::string(characters(context, candidates[i].where))}});
    if (result.empty()) fail("question-answering: the context has no token");
    return count == 1 ? result[0] : result;
  }

 private:
  struct Ends {
    std::vector<float> start, end;  // [T]
  };

  // Of so many windows from `first` on, which go through the model together.
  void add_ends(const std::vector<Encoding>& windows, size_t first, int64_t batch_size, std::vector<Ends>& ends) const {
    const NoGradient inference;
    std::vector<const Encoding*> batch;
    for (size_t i = first; i < std::min(windows.size(), first + static_cast<size_t>(batch_size)); ++i)
      batch.push_back(&windows[i]);
    const NamedTensors outputs = model_.model->forward(model_.inputs_of(batch));
    const auto starts = outputs.at("start_logits").to_vector<float>(),
               lasts = outputs.at("end_logits").to_vector<float>();
    const size_t T = starts.size() / batch.size();
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t begin = i * T + (model_.tokenizer.padding_side() == Side::kLeft ? T - batch[i]->size() : 0);
      const auto part = [&](const std::vector<float>& values) {
        const auto at = values.begin() + static_cast<ptrdiff_t>(begin);
        return std::vector<float>(at, at + static_cast<ptrdiff_t>(batch[i]->size()));
      };
      ends.push_back({part(starts), part(lasts)});
    }
  }

  static void add_candidates(const Encoding& e, Ends logits, int64_t longest, bool words, bool impossible,
                             std::vector<Candidate>& candidates, double& no_answer) {
    std::vector<float>&start = logits.start, &end = logits.end;
    // Probabilities are over the context alone (and the first token, if there may be no answer).
    for (size_t i = 0; i < e.size(); ++i)
      if (e.sequence_ids[i] != 1 && !(impossible && i == 0)) start[i] = end[i] = -10000;
    std::vector<double> starts = softmax_of(start), ends = softmax_of(end);
    if (impossible) no_answer = std::min(no_answer, starts[0] * ends[0]);
    for (size_t i = 0; i < e.size(); ++i) {
      if (e.sequence_ids[i] != 1) continue;
      for (size_t k = i; k < std::min(e.size(), i + static_cast<size_t>(longest)); ++k)
        if (e.sequence_ids[k] == 1) candidates.push_back({starts[i] * ends[k], where(e, i, k, words)});
    }
  }

  static Range where(const Encoding& e, size_t first, size_t last, bool words) {
    if (words) {
      const auto same = [&](size_t a, size_t b) { return e.sequence_ids[a] == 1 && e.word_ids[a] == e.word_ids[b]; };
      while (first > 0 && same(first - 1, first)) --first;
      while (last + 1 < e.size() && same(last + 1, last)) ++last;
    }
    return {e.offsets[first].first, e.offsets[last].second};
  }

  TextModel model_;
};

}  // namespace

std::unique_ptr<Pipeline> make_question_answering(TextModel model) {
  return std::make_unique<QuestionAnswering>(std::move(model));
}

}  // namespace transom
