// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/classification.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "work/pipelines/pipeline.h"

namespace transom {

std::string default_function(const Config& config, size_t classes) {
  const std::string type = config.get_string("problem_type", "");
  if (type == "regression") return "none";
  return type == "multi_label_classification" || classes == 1 ? "sigmoid" : "softmax";
}

std::vector<double> scores_of(const std::vector<float>& logits, const std::string& function) {
  if (function == "softmax") return softmax_of(logits);
  std::vector<double> scores(logits.begin(), logits.end());
  if (function == "sigmoid")
    for (double& x : scores) x = 1 / (1 + std::exp(-x));
  else if (function != "none") fail("function_to_apply: expected softmax, sigmoid or none, found {}", quoted(function));
  return scores;
}

std::vector<ClassScore> classes_of(const std::vector<float>& logits, const std::string& function,
                                   const std::vector<std::string>& labels) {
  const std::vector<double> scores = scores_of(logits, function);
  std::vector<ClassScore> classes;
  for (const size_t i : falling_order(scores))
    classes.push_back({i < labels.size() ? labels[i] : "LABEL_" + std::to_string(i), scores[i]});
  return classes;
}

TaskParameter function_to_apply_parameter() {
  return {"function_to_apply",
          TaskParameter::Type::kText,
          "what turns logits into scores (default: as the configuration says)",
          "",
          {"softmax", "sigmoid", "none"}};
}

size_t classes_wanted(const TaskOptions& options, size_t classes, std::optional<int64_t> otherwise) {
  const bool given = options.contains("top_k");
  if (given ? !is_given(options, "top_k") : !otherwise) return classes;
  const int64_t count = int_option(options, "top_k", otherwise.value_or(1));
  if (count < 1) fail("top_k: expected a number above 0, found {}", count);
  return std::min(classes, static_cast<size_t>(count));
}

std::vector<size_t> falling_order(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

std::string hypothesis_of(const std::string& hypothesis_template, const std::string& label) {
  const size_t place = hypothesis_template.find("{}");
  if (place == hypothesis_template.npos)
    fail("hypothesis_template: {} has no {{}} for the label", quoted(hypothesis_template));
  std::string result = hypothesis_template;
  return result.replace(place, 2, label);
}

}  // namespace transom
