// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/image_text/page_questions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/hub/resolve.h"
#include "inputs/data/text/qa_postprocess.h"
#include "inputs/text/unicode/unicode.h"
#include "models/family.h"
#include "models/records.h"
#include "transom/ops.h"
#include "work/pipelines/image_text/asked_picture.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

constexpr const char* kWordBoxes = "word_boxes";
constexpr int64_t kPage = 1000;  // extents of a page, in the numbers of boxes
constexpr size_t kMostWords = 100'000;

struct PageWords {
  std::vector<std::string> words;
  std::vector<std::array<int64_t, 4>> boxes;
  std::string text;                 // the words with spaces between
  std::vector<size_t> of_position;  // of each character of the text its word; of a space the one before
};

PageWords page_words(const Json& given) {
  if (!given.is_array() || given.empty() || given.size() > kMostWords)
    fail(ErrorKind::kUsage,
         "{}: expected the words of the page with their boxes, [[\"Total\", [x0, y0, x1, y1]], ...] with numbers from "
         "0 to {}, found {}",
         kWordBoxes, kPage, given.is_null() ? "nothing" : quoted(dump_json(given).substr(0, 80)));
  PageWords page;
  for (const Json& each : given) {
    const auto refuse = [&] {
      fail(ErrorKind::kUsage,
           "{}: expected a word and its box, [\"Total\", [x0, y0, x1, y1]], of whole numbers from 0 to {}, the second "
           "corner not before the first, found {}",
           kWordBoxes, kPage, quoted(dump_json(each).substr(0, 80)));
    };
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_array() || each[1].size() != 4)
      refuse();
    std::array<int64_t, 4> box{};
    for (size_t i = 0; i < 4; ++i) {
      const Json& number = each[1][i];
      const double value = number.is_number() ? number.get<double>() : -1;
      if (!(value >= 0 && value <= static_cast<double>(kPage)) || value != std::floor(value)) refuse();
      box[i] = static_cast<int64_t>(value);
    }
    if (box[2] < box[0] || box[3] < box[1]) refuse();
    const std::string word = text::well_formed(each[0].get<std::string>());
    if (!page.words.empty()) page.text += ' ', page.of_position.push_back(page.words.size() - 1);
    for (size_t at = 0; at < word.size(); text::next_character(word, at)) page.of_position.push_back(page.words.size());
    page.text += word;
    page.words.push_back(word);
    page.boxes.push_back(box);
  }
  return page;
}

struct Candidate {
  double score;
  size_t first, last;  // words
};

class PageQuestions : public Pipeline {
 public:
  explicit PageQuestions(TextModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score, top_k of them.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const int64_t top = int_option(options, "top_k", 1), longest = int_option(options, "max_answer_len", 15);
    if (top < 1) fail(ErrorKind::kUsage, "top_k: expected a number of answers above 0, found {}", top);
    if (longest < 1) fail(ErrorKind::kUsage, "max_answer_len: expected a number above 0, found {}", longest);
    for (const auto& [name, value] : options.all())
      if (!find_parameter(page_question_parameters(), name) && name != "top_k" && name != "batch_size")
        fail(ErrorKind::kUsage, "{}: has no effect on a model that finds answers, and writes none", name);
    const PageWords page = page_words(json_option(options, kWordBoxes));
    const int64_t limit = model_.max_length().value_or(0), wanted = int_option(options, "max_seq_len", limit);
    const int64_t length = limit > 0 ? std::min(limit, wanted) : wanted;
    const EncodeOptions encoding{.truncation = Truncation::kOnlySecond,
                                 .max_length = length,
                                 .stride = int_option(options, "doc_stride", std::min<int64_t>(length / 2, 256)),
                                 .return_overflowing_tokens = true};
    const bool impossible = flag_option(options, "handle_impossible_answer", false);
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const std::string& question = *asked_picture(input).question;
      double no_answer = 1e6;
      std::vector<Candidate> all;
      for (const Encoding& window : windows_of(model_.tokenizer.encode(question, page.text, encoding))) {
        const std::vector<Candidate> found = candidates_of(window, page, longest, static_cast<size_t>(top), no_answer);
        all.insert(all.end(), found.begin(), found.end());
      }
      std::vector<AnswerSpan> answers;
      for (const Candidate& each : all)
        answers.push_back(
            {joined(page, each), each.score, static_cast<int64_t>(each.first), static_cast<int64_t>(each.last)});
      if (impossible) answers.push_back({"", no_answer, 0, 0});
      std::stable_sort(answers.begin(), answers.end(),
                       [](const AnswerSpan& a, const AnswerSpan& b) { return *a.score > *b.score; });
      if (answers.size() > static_cast<size_t>(top)) answers.resize(static_cast<size_t>(top));
      results.emplace_back(std::move(answers));
    }
    return results;
  }

 private:
  static std::string joined(const PageWords& page, const Candidate& words) {
    std::string text;
    for (size_t i = words.first; i <= words.last; ++i) text += (i > words.first ? " " : "") + page.words[i];
    return text;
  }

  static size_t word_of(const Encoding& e, size_t token, const PageWords& page) {
    return page.of_position.at(static_cast<size_t>(e.offsets[token].first));
  }

  // Words stand in their boxes, separators in the last corner of the page, all else in the first.
  Tensor boxes_of(const Encoding& e, const PageWords& page) const {
    const std::optional<int64_t> separator = model_.tokenizer.sep_token_id();
    std::vector<int64_t> corners;
    for (size_t i = 0; i < e.size(); ++i) {
      std::array<int64_t, 4> box{};
      if (e.sequence_ids[i] == 1) box = page.boxes[word_of(e, i, page)];
      else if (separator && e.ids[i] == *separator) box.fill(kPage);
      corners.insert(corners.end(), box.begin(), box.end());
    }
    return Tensor::from(corners, {1, static_cast<int64_t>(e.size()), 4});
  }

  // The likeliest spans of a window. Probabilities are over its words and the first token, which stands for none.
  std::vector<Candidate> candidates_of(const Encoding& e, const PageWords& page, int64_t longest, size_t most,
                                       double& no_answer) const {
    const NoGradient inference;
    NamedTensors inputs = model_.inputs_of({&e});
    const int64_t padded = inputs.at("input_ids").dim(1), tokens = static_cast<int64_t>(e.size());
    Tensor boxes = boxes_of(e, page);
    if (padded > tokens) boxes = concatenate({boxes, zeros({1, padded - tokens, 4}, DType::kInt64)}, 1);
    inputs.set("bbox", broadcast_to(boxes, {inputs.at("input_ids").dim(0), padded, 4}));
    const NamedTensors outputs = model_.model->forward(inputs);
    std::vector<float> start = outputs.at("start_logits").to_vector<float>(),
                       end = outputs.at("end_logits").to_vector<float>();
    start.resize(e.size()), end.resize(e.size());
    const std::optional<int64_t> first_token = model_.tokenizer.cls_token_id();
    for (size_t i = 0; i < e.size(); ++i)
      if (e.sequence_ids[i] != 1 && !(first_token && e.ids[i] == *first_token)) start[i] = end[i] = -10000;
    const std::vector<double> starts = softmax_of(start), ends = softmax_of(end);
    no_answer = std::min(no_answer, starts[0] * ends[0]);
    std::vector<Candidate> spans;
    for (size_t i = 0; i < e.size(); ++i) {
      if (e.sequence_ids[i] != 1) continue;
      for (size_t k = i; k < std::min(e.size(), i + static_cast<size_t>(longest)); ++k)
        if (e.sequence_ids[k] == 1) spans.push_back({starts[i] * ends[k], word_of(e, i, page), word_of(e, k, page)});
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    if (spans.size() > most) spans.resize(most);
    return spans;
  }

  TextModel model_;
};

}  // namespace

bool answers_from_words(const std::string& directory) {
  const std::filesystem::path file = directory_of_model(directory) / "config.json";
  const Family* family = find_family(Config::read(file));
  const Architecture* known = family ? find_architecture(*family, "document-question-answering") : nullptr;
  return known && *known->head.task == HeadTask::kQuestionAnswering;
}

std::unique_ptr<Pipeline> make_page_questions(const std::string& directory, const LoadOptions& options) {
  TextModel model = TextModel::load(directory, options);
  if (*head_of(*model.model).task != HeadTask::kQuestionAnswering)
    fail(ErrorKind::kUnsupported,
         "{}: document-question-answering is offered for models that find answers among words and boxes (LayoutLM), "
         "and for Donut, not for {}",
         directory, model.model->architecture());
  return std::make_unique<PageQuestions>(std::move(model));
}

TaskParameters page_question_parameters() {
  return {
      {kWordBoxes, TaskParameter::Type::kJson,
       "words of the page with their boxes, [[\"Total\", [x0, y0, x1, y1]], ...], from 0 to 1000 (LayoutLM)"},
      {"max_answer_len", TaskParameter::Type::kInteger, "maximum number of tokens of an answer (LayoutLM)", "15"},
      {"max_seq_len", TaskParameter::Type::kInteger,
       "maximum number of tokens of question and words together; more words are split (LayoutLM)"},
      {"doc_stride", TaskParameter::Type::kInteger, "tokens that two parts of many words share (LayoutLM)",
       "min(max_seq_len / 2, 256)"},
      {"handle_impossible_answer", TaskParameter::Type::kFlag, "the answer may be none (LayoutLM)", "false"},
  };
}

}  // namespace transom
