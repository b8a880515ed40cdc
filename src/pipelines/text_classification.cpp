// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "io/config.h"
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
    const std::vector<double> scores =
        apply(logits, string_parameter(parameters, "function_to_apply", default_function(logits.size())));
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
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
  std::string default_function(size_t classes) const {
    const std::string type = model_.model->config().get_string("problem_type", "");
    if (type == "regression") return "none";
    return type == "multi_label_classification" || classes == 1 ? "sigmoid" : "softmax";
  }
  static std::vector<double> apply(const std::vector<float>& logits, const std::string& function) {
    if (function == "softmax") return softmax_of(logits);
    std::vector<double> scores(logits.begin(), logits.end());
    if (function == "sigmoid")
      for (double& x : scores) x = 1 / (1 + std::exp(-x));
    else if (function != "none")
      fail("function_to_apply: expected softmax, sigmoid or none, found {}", quoted(function));
    return scores;
  }

  TextModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

std::unique_ptr<Pipeline> make_text_classification(TextModel model) {
  return std::make_unique<TextClassification>(std::move(model));
}

}  // namespace transom
