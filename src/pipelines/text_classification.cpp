// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "io/config.h"
#include "pipelines/classification.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

class TextClassification : public Pipeline {
 public:
  explicit TextClassification(TextModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}

  std::vector<std::string> parameter_names() const override {
    return {"top_k", "function_to_apply", "return_all_scores", "truncation", "max_length"};
  }

  // {"label", "score"}, or a list of them by falling score where top_k is given.
  Json run(const Json& input, const Json& parameters) const override {
    std::optional<std::string> pair;
    if (input.is_object() && input.contains("text_pair")) pair = text_input(input, "text_pair");
    const std::vector<float> logits = model_(text_input(input), pair).outputs.at("logits").to_vector<float>();
    const std::vector<double> scores = scores_of(
        logits,
        string_parameter(parameters, "function_to_apply", default_function(model_.model->config(), logits.size())));
    const std::vector<size_t> order = falling_order(scores);
    const auto item = [&](size_t i) {
      return Json{{"label", i < labels_.size() ? labels_[i] : "LABEL_" + std::to_string(i)}, {"score", scores[i]}};
    };
    const bool all = (parameters.contains("top_k") && parameters["top_k"].is_null()) ||
                     bool_parameter(parameters, "return_all_scores", false);
    if (!parameters.contains("top_k") && !all) return item(order[0]);
    const auto count =
        all ? order.size()
            : std::min(order.size(), static_cast<size_t>(std::max<int64_t>(1, int_parameter(parameters, "top_k", 1))));
    Json result = Json::array();
    for (size_t i = 0; i < count; ++i) result.push_back(item(order[i]));
    return result;
  }

 private:
  TextModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

std::unique_ptr<Pipeline> make_text_classification(TextModel model) {
  return std::make_unique<TextClassification>(std::move(model));
}

}  // namespace transom
