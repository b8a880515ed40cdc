// SPDX-License-Identifier: Apache-2.0
// Metrics of classification and regression, as scikit-learn and scipy compute them; divisions by zero give 0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "work/train/files/trainer_state.h"

namespace transom {

using Classes = std::span<const int64_t>;
using Numbers = std::span<const double>;

double accuracy(Classes labels, Classes predictions);

struct PrecisionRecall {
  double precision = 0, recall = 0, f1 = 0;
};
// kBinary scores the class `positive` alone; kMicro all decisions together; kMacro the mean over classes; kWeighted
// that mean by how often a class is.
enum class Average { kBinary, kMicro, kMacro, kWeighted };
PrecisionRecall precision_recall_f1(Classes labels, Classes predictions, Average average, int64_t positive = 1);
PrecisionRecall precision_recall_f1(int64_t correct, int64_t predicted, int64_t actual);

// Matthews' correlation coefficient, for any number of classes (Gorodkin, 2004).
double matthews_correlation(Classes labels, Classes predictions);
double pearson(Numbers labels, Numbers predictions);
double spearman(Numbers labels, Numbers predictions);  // equal numbers share their mean rank
double mean_squared_error(Numbers labels, Numbers predictions);

// The area under the receiver operating characteristic: how often a row of class 1 is scored higher than one of class
// 0; equal scores count half. Not a number where one of the classes is missing.
double roc_auc(Classes labels, Numbers scores);

// exp of a loss, infinite where that is too large.
double perplexity(double loss);

// The metrics that run_glue and run_classification report for a task of classes, without the "eval_": a GLUE task's own
// (with combined_score where there are two), else `metric` (accuracy, f1, precision, recall, matthews_correlation),
// else accuracy. Errors name a metric that is unknown.
LogRecord class_metrics(const std::optional<std::string>& glue_task, const std::optional<std::string>& metric,
                        Classes labels, Classes predictions);
// For regression: pearson and spearmanr of stsb, or `metric` (mse, pearson, spearmanr), else mse.
LogRecord regression_metrics(const std::optional<std::string>& glue_task, const std::optional<std::string>& metric,
                             Numbers labels, Numbers predictions);
// For rows with several labels, one indicator a class of `classes`: `metric`, else f1. f1, precision, recall and
// roc_auc are over all decisions; accuracy is of rows whose labels are all right, as scikit-learn has it.
LogRecord multi_label_metrics(const std::optional<std::string>& metric, std::span<const float> labels,
                              std::span<const float> logits, int64_t classes);

// What the functions above take as `metric`. Errors name --metric_name.
enum class MetricKind { kClasses, kRegression, kMultiLabel };
void expect_metric(MetricKind kind, const std::optional<std::string>& metric);
// The names that they report.
std::vector<std::string> metric_names(MetricKind kind, const std::optional<std::string>& glue_task,
                                      const std::optional<std::string>& metric);

}  // namespace transom
