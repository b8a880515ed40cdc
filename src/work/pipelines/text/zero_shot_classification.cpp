// SPDX-License-Identifier: Apache-2.0
// Zero-shot classification by entailment (Yin, Hay and Roth, 2019): is "This example is <label>." entailed by the text?
#include <algorithm>

#include "base/error.h"
#include "base/terminal/log.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

class ZeroShotClassification : public Pipeline {
 public:
  explicit ZeroShotClassification(TextModel model) : model_(std::move(model)) {
    const std::vector<std::string> labels = model_.model->labels();
    for (size_t i = 0; i < labels.size(); ++i) {
      std::string lower = labels[i];
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
      if (lower.starts_with("entail")) entailment_ = i;
    }
    if (!entailment_)
      log(LogLevel::kWarning,
          fmt::format(
              "zero-shot-classification: no label of the model begins with \"entail\" (its labels: {}); the last "
              "one is taken as entailment, and the scores may mean nothing",
              fmt::join(labels, ", ")));
  }
  Model* model() const override { return model_.model.get(); }

  // By falling score. The pairs of all texts and labels are one list for batches.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string hypothesis = text_option(options, "hypothesis_template", "This example is {}.");
    const auto encode = [&](size_t i) {
      const TextInput& input = text_input(inputs[i]);
      std::vector<Encoding> pairs;
      for (const std::string& label : candidate_labels(input.candidate_labels, options))
        pairs.push_back(pair_of(input.text, hypothesis_of(hypothesis, label)));
      return pairs;
    };
    const auto rows = model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kText, batch_size_of(options));
    std::vector<TaskResult> results;
    for (size_t i = 0; i < inputs.size(); ++i)
      results.emplace_back(
          ranking(candidate_labels(text_input(inputs[i]).candidate_labels, options), rows[i], options));
    return results;
  }

 private:
  // The text is shortened. Where its label alone is too long nothing is, as in Transformers; the positions of the model
  // are the limit then.
  Encoding pair_of(const std::string& text, const std::string& hypothesis) const {
    const std::optional<int64_t> most = model_.max_length();
    Encoding whole = model_.tokenizer.encode(text, hypothesis);
    const int64_t surplus = most ? static_cast<int64_t>(whole.size()) - *most : 0;
    if (surplus <= 0) return whole;
    if (std::count(whole.sequence_ids.begin(), whole.sequence_ids.end(), 0) > surplus)
      return model_.first_part(text, hypothesis, {.truncation = Truncation::kOnlyFirst, .max_length = most}, "");
    expect_positions(whole, model_, ", or its label");
    return whole;
  }

  std::vector<ClassScore> ranking(const std::vector<std::string>& candidates, const std::vector<TextModel::Row>& rows,
                                  const TaskOptions& options) const {
    const bool multi = flag_option(options, "multi_label", false) || candidates.size() == 1;
    std::vector<double> scores;
    std::vector<float> entailments;
    for (const TextModel::Row& row : rows) {
      const std::vector<float>& logits = row.outputs[0];
      const size_t entailment = entailment_.value_or(logits.size() - 1),
                   contradiction = entailment == 0 ? logits.size() - 1 : 0;
      if (multi) scores.push_back(softmax_of({logits[contradiction], logits[entailment]})[1]);
      else entailments.push_back(logits[entailment]);
    }
    if (!multi) scores = softmax_of(entailments);
    std::vector<ClassScore> ranked;
    for (const size_t i : falling_order(scores)) ranked.push_back({candidates[i], scores[i]});
    return ranked;
  }

  TextModel model_;
  std::optional<size_t> entailment_;
};

TaskParameters zero_shot_classification_parameters() {
  return {
      {"candidate_labels", TaskParameter::Type::kTexts, "the classes to choose from", "", {}, true},
      {"hypothesis_template", TaskParameter::Type::kText, "sentence that a label is put into, in place of {}",
       "This example is {}."},
      {"multi_label", TaskParameter::Type::kFlag, "several labels may be true; each is scored on its own", "false"},
  };
}

constexpr TaskRecord kZeroShotClassification{.name = "zero-shot-classification",
                                             .example = "\"A new phone.\" --candidate_labels \"trade, sport\"",
                                             .result = ResultKind::kClasses,
                                             .json = {.classes = JsonForm::Classes::kLists},
                                             .parameters = zero_shot_classification_parameters,
                                             .load = load_text_task<ZeroShotClassification>};
const RegisterTask kRegisterZeroShotClassification(kZeroShotClassification);

}  // namespace
}  // namespace transom
