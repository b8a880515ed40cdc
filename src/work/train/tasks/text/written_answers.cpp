// SPDX-License-Identifier: Apache-2.0
// run_seq2seq_qa: questions about contexts, whose answers an encoder-decoder writes.
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/hub/adapters.h"
#include "inputs/data/text/qa_features.h"
#include "work/train/metrics/squad_metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"
#include "work/train/tasks/written_texts.h"

namespace transom {
namespace {

constexpr int64_t kAskedLength = 384;  // run_seq2seq_qa's max_seq_length

std::string without_spaces_in_front(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(" \t\n\r\f\v"), text.size()));
}

std::string asked_text(const Question& question) {
  return "question: " + without_spaces_in_front(question.question) +
         " context: " + without_spaces_in_front(question.context);
}

// Questions as rows. Of those that are to be answered a long text becomes several, and the answer to the last of them
// counts, as in the script.
class AskedQuestions {
 public:
  AskedQuestions(Questions questions, const TextEncoder& encoder, const ScriptArguments& script, int64_t answer_length,
                 bool in_parts)
      : questions_(std::move(questions)), version_2_(script.version_2_with_negative) {
    const bool to_max = script.pad_to_max_length.value_or(true);
    PaddingOptions padding = encoder.padding(to_max);
    padding.separate_labels = true;
    if (!script.ignore_pad_token_for_loss) padding.label_fill = padding.pad_token_id;
    if (to_max) padding.max_label_length = answer_length;
    const auto made = map_rows(questions_.size(), [&](int64_t i) {
      const Question question = questions_[i];
      const EncodeOptions options{.truncation = Truncation::kLongestFirst,
                                  .max_length = encoder.max_length(),
                                  .return_overflowing_tokens = in_parts};
      Encoding whole = encoder.encode(asked_text(question), std::nullopt, options);
      std::vector<Encoding> parts = std::move(whole.overflowing);
      parts.insert(parts.begin(), std::move(whole));
      const std::string answer = question.answers.empty() ? "" : question.answers.front();
      const TokenIds labels =
          encoder.tokenizer()
              .encode(answer, std::nullopt,
                      {.truncation = Truncation::kLongestFirst, .max_length = answer_length, .target = true})
              .ids;
      std::vector<Features> rows;
      for (Encoding& part : parts) {
        rows.push_back(encoder.features(std::move(part)));
        rows.back().sequences.erase("token_type_ids");  // no encoder-decoder takes them
        rows.back().sequences["labels"] = labels;
      }
      return rows;
    });
    std::vector<Features> all;
    for (const std::vector<Features>& rows : made) {
      all.insert(all.end(), rows.begin(), rows.end());
      last_rows_.push_back(static_cast<int64_t>(all.size()) - 1);
    }
    data_ = held_rows(std::move(all), padding);
  }

  const TrainingData& data() const { return data_; }

  // Texts that were written for the rows; metrics where there are answers. Writes <prefix>_predictions.json.
  Metrics finish(const Predictions& predictions, const Tokenizer& tokenizer, const std::filesystem::path& folder,
                 const std::string& prefix, int64_t shown) const {
    const Predictions::Array* found = find_output(predictions, kWrittenTexts);
    if (!found) return {};
    require(predictions.rows == data_.rows,
            "text2text-generation: expected answers to {} rows, found {}; dataloader_drop_last leaves some out",
            data_.rows, predictions.rows);
    const std::vector<std::string> texts = texts_of_rows(
        found->values, predictions.rows, [&](const TokenIds& tokens) { return tokenizer.decode(tokens, true); });
    Json answers = Json::object();
    std::vector<AnswerPair> pairs;
    std::vector<std::string> wanted, written;
    for (int64_t i = 0; i < questions_.size(); ++i) {
      const Question question = questions_[i];
      const std::string& text = texts.at(static_cast<size_t>(last_rows_[static_cast<size_t>(i)]));
      answers[question.id] = text;
      pairs.push_back({text, question.answers});
      wanted.push_back(question.answers.empty() ? "" : question.answers.front());
      written.push_back(text);
    }
    show_samples(shown, wanted, written);
    make_directories(folder);
    write_file(folder / (prefix + "_predictions.json"), dump_json(answers, 4) + "\n");
    if (!questions_.has_answers()) return {};
    return as_metrics(version_2_ ? squad_v2_metrics(pairs) : squad_metrics(pairs));
  }

 private:
  Questions questions_;
  bool version_2_;
  std::vector<int64_t> last_rows_;
  TrainingData data_;
};

GenerationConfig config_of_answers(const ScriptArguments& script, const Tokenizer& tokenizer, int64_t longest) {
  GenerationConfig config = GenerationConfig::from_pretrained(base_of_adapters(script.model_name_or_path).string());
  config.max_new_tokens.reset();
  config.max_length = script.generation_max_length.value_or(longest);
  if (const auto beams = script.num_beams ? script.num_beams : script.generation_num_beams) config.num_beams = *beams;
  if (!config.pad_token_id) config.pad_token_id = tokenizer.pad_token_id().value_or(0);
  return config;
}

}  // namespace

void prepare_written_answers(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (arguments.training.do_predict && !script.predict_with_generate)
    fail(ErrorKind::kUsage, "--do_predict: answers are written with --predict_with_generate");
  const QuestionColumns names = question_columns(script);
  const auto read = [&](const std::optional<Dataset>& data, std::optional<int64_t> limit) -> std::optional<Questions> {
    if (!data) return std::nullopt;
    const Questions all(*data, names);
    return limit ? all.first(*limit) : all;
  };
  const auto train = read(files.train, script.max_train_samples),
             validation = read(files.validation, script.max_eval_samples),
             test = read(files.test, script.max_predict_samples);
  if (train && !train->has_answers()) fail("{}: expected answers to learn from, found none", files.train->name());
  const Questions& any = train ? *train : validation ? *validation : *test;
  setup.reads = what_is_read({fmt::format("source: columns {} and {}", names.question, names.context),
                              any.has_answers() ? "target: the first of the answers" : "no answers"},
                             files);
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "text2text-generation"));
  const TextEncoder encoder(arguments, *setup.model, kAskedLength);
  const int64_t longest = script.max_answer_length, evaluated = script.val_max_target_length.value_or(longest);
  const GenerationConfig config = config_of_answers(script, encoder.tokenizer(), evaluated);
  score_loss_only(setup);
  if (train) setup.train = AskedQuestions(*train, encoder, script, longest, false).data();
  const auto asked = [&](const Questions& questions) {
    return std::make_shared<const AskedQuestions>(questions, encoder, script, longest, true);
  };
  if (script.predict_with_generate)
    setup.predict = [model = setup.model.get(), config](const NamedTensors& inputs) {
      return texts_that_are_written(*model, config, config.pad_token_id.value(), inputs);
    };
  const Tokenizer tokenizer = encoder.tokenizer();
  if (validation) {
    const auto rows = asked(*validation);
    setup.validation = rows->data();
    if (script.predict_with_generate) {
      if (!script.version_2_with_negative) setup.metric_names = {"exact_match", "f1"};
      else setup.metric_names.reset();
      setup.compute_metrics = [rows, tokenizer, folder = arguments.training.output_dir,
                               shown = samples_to_show(script, 3)](const Predictions& predictions) {
        return rows->finish(predictions, tokenizer, folder, "eval", shown);
      };
    }
  }
  if (test) {
    const auto rows = asked(*test);
    setup.test = rows->data();
    setup.write_predictions = [rows, tokenizer](const Predictions& predictions, const std::filesystem::path& folder) {
      return rows->finish(predictions, tokenizer, folder, "predict", 0);
    };
  }
  encoder.save_into(setup);
}

}  // namespace transom
