// SPDX-License-Identifier: Apache-2.0
// Long contexts become several windows, each a row of its own; the answers of a question's windows are joined again
// after evaluation.
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/data/text/qa_features.h"
#include "work/train/metrics/squad_metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kContextLength = 384;  // run_qa's max_seq_length

class WindowMaker {
 public:
  WindowMaker(const TextEncoder& encoder, int64_t stride) : encoder_(encoder), stride_(stride) {}

  // The context comes second; first, where rows are padded in front.
  std::vector<Encoding> windows(const Question& question, const std::string& where) const {
    const bool left = (encoder_.tokenizer().padding_side() == Side::kLeft);
    const EncodeOptions options{.truncation = left ? Truncation::kOnlyFirst : Truncation::kOnlySecond,
                                .max_length = encoder_.max_length(),
                                .stride = stride_,
                                .return_overflowing_tokens = true};
    const size_t space = std::min(question.question.find_first_not_of(" \t\r\n"), question.question.size());
    const std::string asked = question.question.substr(space), &context = question.context;
    try {
      Encoding first = left ? encoder_.encode(context, asked, options) : encoder_.encode(asked, context, options);
      std::vector<Encoding> all = std::move(first.overflowing);
      all.insert(all.begin(), std::move(first));
      return all;
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  }

  AnswerWindow answer_window(const Encoding& encoding) const {
    AnswerWindow window;
    const int64_t context = (encoder_.tokenizer().padding_side() == Side::kLeft) ? 0 : 1;
    for (size_t i = 0; i < encoding.size(); ++i) {
      window.offsets.push_back({encoding.offsets[i].first, encoding.offsets[i].second});
      window.in_context.push_back(encoding.sequence_ids[i] == context);
    }
    for (const char* role : {"cls", "bos"}) {
      const auto id = encoder_.tokenizer().special_token_id(role);
      const auto found = id ? std::find(encoding.ids.begin(), encoding.ids.end(), *id) : encoding.ids.end();
      if (found == encoding.ids.end()) continue;
      window.cls = found - encoding.ids.begin();
      break;
    }
    return window;
  }

  const TextEncoder& encoder() const { return encoder_; }

 private:
  TextEncoder encoder_;
  int64_t stride_;
};

template <typename Item>
std::vector<Item> joined(std::vector<std::vector<Item>> lists, std::optional<int64_t> limit) {
  std::vector<Item> all;
  for (auto& list : lists)
    all.insert(all.end(), std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  if (limit && static_cast<int64_t>(all.size()) > *limit) all.resize(static_cast<size_t>(*limit));
  return all;
}

// Each window with the tokens of the first answer. The limit counts questions first, then windows, as in run_qa.
TrainingData training_rows(const Questions& questions, const WindowMaker& maker, const PaddingOptions& padding,
                           std::optional<int64_t> limit) {
  require(questions.has_answers(), "{}: expected answers with text and answer_start to train on", questions.where(0));
  auto rows = map_rows(questions.size(), [&](int64_t i) {
    const Question question = questions[i];
    std::vector<Features> windows;
    for (Encoding& encoding : maker.windows(question, questions.where(i))) {
      const TokenSpan span = answer_tokens(maker.answer_window(encoding), question.first);
      Features features = maker.encoder().features(std::move(encoding));
      features.numbers = {{"start_positions", span.start}, {"end_positions", span.end}};
      windows.push_back(std::move(features));
    }
    return windows;
  });
  return held_rows(joined(std::move(rows), limit), padding);
}

struct Window {
  int64_t question = 0;
  AnswerWindow tokens;
};

// Windows to predict, and what they belong to.
class PredictedQuestions {
 public:
  PredictedQuestions(Questions questions, const WindowMaker& maker, const PaddingOptions& padding,
                     std::optional<int64_t> limit, const ScriptArguments& script)
      : questions_(std::move(questions)),
        version_2_(script.version_2_with_negative),
        options_{.n_best = script.n_best_size,
                 .max_answer_length = script.max_answer_length,
                 .may_be_empty = script.version_2_with_negative,
                 .null_score_diff_threshold = script.null_score_diff_threshold} {
    struct Row {
      Features features;
      Window window;
    };
    auto made = map_rows(questions_.size(), [&](int64_t i) {
      std::vector<Row> rows;
      for (Encoding& encoding : maker.windows(questions_[i], questions_.where(i))) {
        AnswerWindow tokens = maker.answer_window(encoding);
        tokens.cls = 0;  // run_qa takes the scores of no answer from the first token
        rows.push_back({maker.encoder().features(std::move(encoding)), {i, std::move(tokens)}});
      }
      return rows;
    });
    std::vector<Features> features;
    for (Row& row : joined(std::move(made), limit)) {
      features.push_back(std::move(row.features));
      windows_.push_back(std::move(row.window));
    }
    data_ = held_rows(std::move(features), padding);
  }

  const TrainingData& data() const { return data_; }

  // Writes <prefix>_predictions.json and its like; metrics where there are answers.
  Metrics finish(const Predictions& predictions, const std::filesystem::path& folder, const std::string& prefix) const {
    const Predictions::Array *starts = find_output(predictions, "start_logits"),
                             *ends = find_output(predictions, "end_logits");
    require(static_cast<size_t>(starts->shape[0]) == windows_.size(),
            "question-answering: expected scores of {} windows, found {}; dataloader_drop_last leaves some out",
            windows_.size(), starts->shape[0]);
    const auto width = static_cast<size_t>(starts->shape[1]);
    Json texts = Json::object(), n_best = Json::object(), odds = Json::object();
    std::vector<AnswerPair> pairs;
    double null_score = 0;
    for (size_t window = 0, i = 0; i < static_cast<size_t>(questions_.size()); ++i) {
      const Question question = questions_[static_cast<int64_t>(i)];
      std::vector<WindowScores> scores;
      for (; window < windows_.size() && windows_[window].question == static_cast<int64_t>(i); ++window)
        scores.push_back({&windows_[window].tokens, std::span(starts->values).subspan(window * width, width),
                          std::span(ends->values).subspan(window * width, width)});
      const BestAnswers best = best_answers(question.context, scores, options_, null_score);
      null_score = best.null_score;
      texts[question.id] = best.text;
      pairs.push_back({best.text, question.answers});
      n_best[question.id] = as_json(best.answers);
      if (version_2_) odds[question.id] = best.null_odds;
    }
    make_directories(folder);
    write_file(folder / (prefix + "_predictions.json"), dump_json(texts, 4) + "\n");
    write_file(folder / (prefix + "_nbest_predictions.json"), dump_json(n_best, 4) + "\n");
    if (version_2_) write_file(folder / (prefix + "_null_odds.json"), dump_json(odds, 4) + "\n");
    if (!questions_.has_answers()) return {};
    return as_metrics(version_2_ ? squad_v2_metrics(pairs) : squad_metrics(pairs));
  }

 private:
  static Json as_json(const std::vector<Answer>& answers) {
    Json list = Json::array();
    for (const Answer& answer : answers)
      list.push_back({{"start_logit", answer.start_score},
                      {"end_logit", answer.end_score},
                      {"text", answer.text},
                      {"probability", answer.probability}});
    return list;
  }

  Questions questions_;
  bool version_2_;
  AnswerOptions options_;
  std::vector<Window> windows_;
  TrainingData data_;
};

}  // namespace

bool has_questions(const Dataset& data, const ScriptArguments& script) {
  // Who names such a column means questions, and is told where it is missing.
  return script.question_column || script.context_column || script.answer_column ||
         Questions::fits(data, question_columns(script));
}

void prepare_question_answering(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const QuestionColumns names = question_columns(script);
  const auto questions = [&](const Dataset& data, std::optional<int64_t> limit) {
    const Questions all(data, names);
    return limit ? all.first(*limit) : all;
  };
  const auto read = [&](const std::optional<Dataset>& data, std::optional<int64_t> limit) -> std::optional<Questions> {
    if (!data) return std::nullopt;
    return questions(*data, limit);
  };
  const auto train = read(files.train, script.max_train_samples),
             validation = read(files.validation, script.max_eval_samples),
             test = read(files.test, script.max_predict_samples);
  const Questions& any = train ? *train : validation ? *validation : *test;
  setup.reads = what_is_read({fmt::format("text: columns {} and {}", names.question, names.context),
                              any.has_answers() ? "answers: text and answer_start" : "no answers"},
                             files);
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "question-answering"));
  const TextEncoder encoder(arguments, *setup.model, kContextLength);
  PaddingOptions padding = encoder.padding(script.pad_to_max_length.value_or(true));
  padding.bucket = nullptr;  // the loss is over all places of a row, padding too
  const WindowMaker maker(encoder, script.doc_stride);
  if (train) setup.train = training_rows(*train, maker, padding, script.max_train_samples);
  const auto predicted = [&](const Questions& asked, std::optional<int64_t> limit) {
    return std::make_shared<const PredictedQuestions>(asked, maker, padding, limit, script);
  };
  if (validation) {
    const auto rows = predicted(*validation, script.max_eval_samples);
    setup.validation = rows->data();
    if (!script.version_2_with_negative) setup.metric_names = {"exact_match", "f1"};
    setup.compute_metrics = [rows, folder = arguments.training.output_dir](const Predictions& predictions) {
      return rows->finish(predictions, folder, "eval");
    };
  }
  if (test) {
    const auto rows = predicted(*test, script.max_predict_samples);
    setup.test = rows->data();
    setup.write_predictions = [rows](const Predictions& predictions, const std::filesystem::path& folder) {
      return rows->finish(predictions, folder, "predict");
    };
  }
  encoder.save_into(setup);
}

}  // namespace transom
