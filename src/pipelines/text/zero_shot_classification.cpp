// SPDX-License-Identifier: Apache-2.0
// Zero-shot classification by entailment (Yin, Hay and Roth, 2019): is "This example is <label>." entailed by the text?
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "pipelines/classification.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/text_model.h"

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
  TaskParameters parameters() const override { return zero_shot_classification_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // {"sequence", "labels", "scores"} by falling score.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  // The pairs of all texts and labels are one list for batches.
  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const std::string hypothesis = string_parameter(parameters, "hypothesis_template", "This example is {}.");
    const EncodeOptions options{.truncation = Truncation::kOnlyFirst, .max_length = model_.max_length()};
    const auto encode = [&](size_t i) {
      std::vector<Encoding> pairs;
      for (const std::string& label : candidate_labels(inputs[i], parameters))
        pairs.push_back(model_.first_part(text_input(inputs[i]), hypothesis_of(hypothesis, label), options, ""));
      return pairs;
    };
    const auto rows = model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kText, batch_size_of(parameters));
    std::vector<Json> results;
    for (size_t i = 0; i < inputs.size(); ++i)
      results.push_back(ranking(text_input(inputs[i]), candidate_labels(inputs[i], parameters), rows[i], parameters));
    return results;
  }

 private:
  Json ranking(const std::string& sequence, const std::vector<std::string>& candidates,
               const std::vector<TextModel::Row>& rows, const Json& parameters) const {
    const bool multi = bool_parameter(parameters, "multi_label", false) || candidates.size() == 1;
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
    Json labels = Json::array(), sorted = Json::array();
    for (const size_t i : falling_order(scores)) labels.push_back(candidates[i]), sorted.push_back(scores[i]);
    return {{"sequence", sequence}, {"labels", labels}, {"scores", sorted}};
  }

  TextModel model_;
  std::optional<size_t> entailment_;
};

}  // namespace

TaskParameters zero_shot_classification_parameters() {
  return {
      {"candidate_labels", TaskParameter::Type::kTexts, "the classes to choose from", "", {}, true},
      {"hypothesis_template", TaskParameter::Type::kText, "sentence that a label is put into, in place of {}",
       "This example is {}."},
      {"multi_label", TaskParameter::Type::kFlag, "several labels may be true; each is scored on its own", "false"},
  };
}

std::unique_ptr<Pipeline> make_zero_shot_classification(TextModel model) {
  return std::make_unique<ZeroShotClassification>(std::move(model));
}

}  // namespace transom
