// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

class TextClassification : public Pipeline {
 public:
  explicit TextClassification(TextModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const EncodeOptions encoding = encode_options(options, model_);
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      const TextInput& input = text_input(inputs[i]);
      std::vector<Encoding> encodings{model_.tokenizer.encode(
          input.text, input.text_pair ? std::optional<std::string_view>(*input.text_pair) : std::nullopt, encoding)};
      expect_positions(encodings[0], model_, ", or have it cut: truncation true");
      return encodings;
    };
    std::vector<TaskResult> results;
    for (const auto& rows :
         model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kText, batch_size_of(options)))
      results.emplace_back(classes(rows[0].outputs[0], options));
    return results;
  }

 private:
  // By falling score.
  std::vector<ClassScore> classes(const std::vector<float>& logits, const TaskOptions& options) const {
    const std::string function = default_function(model_.model->config(), logits.size());
    auto classes = classes_of(logits, text_option(options, "function_to_apply", function), labels_);
    if (!flag_option(options, "return_all_scores", false)) classes.resize(classes_wanted(options, classes.size(), 1));
    return classes;
  }

  TextModel model_;
  std::vector<std::string> labels_;
};

TaskParameters text_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return; none: all", "1"},
      function_to_apply_parameter(),
      {"return_all_scores", TaskParameter::Type::kFlag, "return the scores of all classes", "false"},
      {"truncation",
       TaskParameter::Type::kFlagOrWord,
       "cut texts that are longer than the model takes, which are refused without",
       "false",
       {"longest_first", "only_first", "only_second", "do_not_truncate"}},
      {"truncation_side", TaskParameter::Type::kText, "the side that is cut off", "", {"right", "left"}},
      {"max_length", TaskParameter::Type::kInteger, "maximum number of tokens of a text"},
      {"padding", TaskParameter::Type::kFlagOrWord, "pad texts", "", {"longest", "max_length", "do_not_pad"}},
  };
}

// Without top_k the best class is the result itself, but, as in Transformers, one text alone gives a list all the same.
bool is_best_class(const TaskOptions& options, const CallForm& form) {
  return !options.contains("top_k") && !flag_option(options, "return_all_scores", false) && !(form.alone && form.plain);
}

constexpr TaskRecord kTextClassification{.name = "text-classification",
                                         .alias = "sentiment-analysis",
                                         .example = "\"What a film!\"",
                                         .result = ResultKind::kClasses,
                                         .json = {.unwraps = is_best_class},
                                         .parameters = text_classification_parameters,
                                         .load = load_text_task<TextClassification>};
const RegisterTask kRegisterTextClassification(kTextClassification);

}  // namespace
}  // namespace transom
