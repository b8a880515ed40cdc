// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "io/config.h"
#include "pipelines/classification.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/text_model.h"

namespace transom {
namespace {

class TextClassification : public Pipeline {
 public:
  explicit TextClassification(TextModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}

  TaskParameters parameters() const override { return text_classification_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // {"label", "score"}, or a list of them by falling score where top_k is given. As in Transformers, one text without
  // top_k gives a list all the same.
  Json run(const Json& input, const Json& parameters) const override {
    Json result = run_all({input}, parameters)[0];
    return input.is_string() && result.is_object() ? Json::array({result}) : result;
  }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const EncodeOptions options = encode_options(parameters, model_);
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      const Json& input = inputs[i];
      std::optional<std::string> pair;
      if (input.is_object() && input.contains("text_pair")) pair = text_input(input, "text_pair");
      std::vector<Encoding> encodings{model_.tokenizer.encode(
          text_input(input), pair ? std::optional<std::string_view>(*pair) : std::nullopt, options)};
      expect_positions(encodings[0], model_, ", or have it cut: truncation true");
      return encodings;
    };
    std::vector<Json> results;
    for (const auto& rows :
         model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kText, batch_size_of(parameters)))
      results.push_back(answer(rows[0].outputs[0], parameters));
    return results;
  }

 private:
  Json answer(const std::vector<float>& logits, const Json& parameters) const {
    const std::string function = default_function(model_.model->config(), logits.size());
    const auto classes = classes_of(logits, string_parameter(parameters, "function_to_apply", function), labels_);
    const auto item = [&](size_t i) { return Json{{"label", classes[i].label}, {"score", classes[i].score}}; };
    const bool all = bool_parameter(parameters, "return_all_scores", false);
    if (!parameters.contains("top_k") && !all) return item(0);
    const size_t count = all ? classes.size() : classes_wanted(parameters, classes.size(), 1);
    Json result = Json::array();
    for (size_t i = 0; i < count; ++i) result.push_back(item(i));
    return result;
  }

  TextModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

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

std::unique_ptr<Pipeline> make_text_classification(TextModel model) {
  return std::make_unique<TextClassification>(std::move(model));
}

}  // namespace transom
