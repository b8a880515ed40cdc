// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"

namespace transom {
namespace {

double divide(double a, double b) { return b == 0 ? 0 : a / b; }

template <typename Type>
void check(std::span<const Type> labels, std::span<const Type> predictions) {
  require(labels.size() == predictions.size() && !labels.empty(),
          "metrics: expected as many predictions as labels, found {} and {}", predictions.size(), labels.size());
}

struct Counts {
  int64_t correct = 0, predicted = 0, actual = 0;
};

// Of every class that a label or a prediction has.
std::map<int64_t, Counts> count(Classes labels, Classes predictions) {
  check(labels, predictions);
  std::map<int64_t, Counts> counts;
  for (size_t i = 0; i < labels.size(); ++i) {
    ++counts[labels[i]].actual;
    ++counts[predictions[i]].predicted;
    counts[labels[i]].correct += labels[i] == predictions[i];
  }
  return counts;
}

std::vector<double> ranks(Numbers values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) result[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return result;
}

double mean(Numbers values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void combine(LogRecord& record) {
  if (record.size() < 2) return;
  double sum = 0;
  for (const auto& [name, value] : record) sum += std::get<double>(value);
  record.emplace_back("combined_score", sum / static_cast<double>(record.size()));
}

}  // namespace

double accuracy(Classes labels, Classes predictions) {
  check(labels, predictions);
  int64_t correct = 0;
  for (size_t i = 0; i < labels.size(); ++i) correct += labels[i] == predictions[i];
  return static_cast<double>(correct) / static_cast<double>(labels.size());
}

PrecisionRecall precision_recall_f1(int64_t correct, int64_t predicted, int64_t actual) {
  const auto hits = static_cast<double>(correct);
  const double precision = divide(hits, static_cast<double>(predicted)),
               recall = divide(hits, static_cast<double>(actual));
  return {precision, recall, divide(2 * precision * recall, precision + recall)};
}

PrecisionRecall precision_recall_f1(Classes labels, Classes predictions, Average average, int64_t positive) {
  const auto counts = count(labels, predictions);
  if (average == Average::kBinary) {
    const auto found = counts.find(positive);
    if (found == counts.end()) return {};
    return precision_recall_f1(found->second.correct, found->second.predicted, found->second.actual);
  }
  PrecisionRecall sum;
  double weights = 0;
  Counts all;
  for (const auto& [name, each] : counts) {
    const PrecisionRecall one = precision_recall_f1(each.correct, each.predicted, each.actual);
    const double weight = average == Average::kWeighted ? static_cast<double>(each.actual) : 1;
    sum.precision += weight * one.precision;
    sum.recall += weight * one.recall;
    sum.f1 += weight * one.f1;
    weights += weight;
    all.correct += each.correct, all.predicted += each.predicted, all.actual += each.actual;
  }
  if (average == Average::kMicro) return precision_recall_f1(all.correct, all.predicted, all.actual);
  return {sum.precision / weights, sum.recall / weights, sum.f1 / weights};
}

double matthews_correlation(Classes labels, Classes predictions) {
  const auto n = static_cast<double>(labels.size());
  double correct = 0, both = 0, predicted = 0, actual = 0;
  for (const auto& [name, each] : count(labels, predictions)) {
    const auto p = static_cast<double>(each.predicted), a = static_cast<double>(each.actual);
    correct += static_cast<double>(each.correct);
    both += p * a;
    predicted += p * p;
    actual += a * a;
  }
  return divide(correct * n - both, std::sqrt((n * n - predicted) * (n * n - actual)));
}

double pearson(Numbers labels, Numbers predictions) {
  check(labels, predictions);
  const double x_mean = mean(labels), y_mean = mean(predictions);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double x = labels[i] - x_mean, y = predictions[i] - y_mean;
    xy += x * y, xx += x * x, yy += y * y;
  }
  return divide(xy, std::sqrt(xx) * std::sqrt(yy));
}

double spearman(Numbers labels, Numbers predictions) {
  check(labels, predictions);
  return pearson(ranks(labels), ranks(predictions));
}

double mean_squared_error(Numbers labels, Numbers predictions) {
  check(labels, predictions);
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) sum += (labels[i] - predictions[i]) * (labels[i] - predictions[i]);
  return sum / static_cast<double>(labels.size());
}

double perplexity(double loss) { return std::exp(loss); }

LogRecord class_metrics(const std::optional<std::string>& glue_task, const std::optional<std::string>& metric,
                        Classes labels, Classes predictions) {
  expect_metric(MetricKind::kClasses, metric);
  if (glue_task && !metric) {
    if (*glue_task == "cola") return {{"matthews_correlation", matthews_correlation(labels, predictions)}};
    LogRecord record = {{"accuracy", accuracy(labels, predictions)}};
    if (*glue_task == "mrpc" || *glue_task == "qqp")
      record.emplace_back("f1", precision_recall_f1(labels, predictions, Average::kBinary).f1);
    combine(record);
    return record;
  }
  const std::string name = metric.value_or("accuracy");
  if (name == "accuracy") return {{name, accuracy(labels, predictions)}};
  if (name == "matthews_correlation") return {{name, matthews_correlation(labels, predictions)}};
  // Two classes are scored by the second, more of them by all decisions.
  const bool two = *std::max_element(labels.begin(), labels.end()) < 2 &&
                   *std::max_element(predictions.begin(), predictions.end()) < 2;
  const PrecisionRecall scores = precision_recall_f1(labels, predictions, two ? Average::kBinary : Average::kMicro);
  if (name == "f1") return {{name, scores.f1}};
  if (name == "precision") return {{name, scores.precision}};
  if (name == "recall") return {{name, scores.recall}};
  fail(ErrorKind::kInternal, "metric_name: {} is not computed", name);
}

LogRecord regression_metrics(const std::optional<std::string>& glue_task, const std::optional<std::string>& metric,
                             Numbers labels, Numbers predictions) {
  expect_metric(MetricKind::kRegression, metric);
  if (glue_task == "stsb" && !metric) {
    LogRecord record = {{"pearson", pearson(labels, predictions)}, {"spearmanr", spearman(labels, predictions)}};
    combine(record);
    return record;
  }
  const std::string name = metric.value_or("mse");
  if (name == "mse") return {{name, mean_squared_error(labels, predictions)}};
  if (name == "pearson") return {{name, pearson(labels, predictions)}};
  if (name == "spearmanr") return {{name, spearman(labels, predictions)}};
  fail(ErrorKind::kInternal, "metric_name: {} is not computed", name);
}

LogRecord multi_label_metrics(const std::optional<std::string>& metric, std::span<const float> labels,
                              std::span<const float> logits, int64_t classes) {
  check(labels, logits);
  expect_metric(MetricKind::kMultiLabel, metric);
  const std::string name = metric.value_or("f1");
  Counts counts;
  int64_t right = 0;  // rows
  for (size_t begin = 0; begin < labels.size(); begin += static_cast<size_t>(classes)) {
    bool all = true;
    for (size_t i = begin; i < std::min(labels.size(), begin + static_cast<size_t>(classes)); ++i) {
      const bool actual = labels[i] > 0.5F, predicted = logits[i] > 0;
      counts.actual += actual, counts.predicted += predicted, counts.correct += actual && predicted;
      all = all && actual == predicted;
    }
    right += all;
  }
  if (name == "accuracy") return {{name, static_cast<double>(right * classes) / static_cast<double>(labels.size())}};
  if (name == "roc_auc") {
    std::vector<int64_t> ones;
    for (const float label : labels) ones.push_back(label > 0.5F);
    return {{name, roc_auc(ones, std::vector<double>(logits.begin(), logits.end()))}};
  }
  const PrecisionRecall scores = precision_recall_f1(counts.correct, counts.predicted, counts.actual);
  return {{name, name == "precision" ? scores.precision : name == "recall" ? scores.recall : scores.f1}};
}

void expect_metric(MetricKind kind, const std::optional<std::string>& metric) {
  if (!metric) return;
  std::vector<std::string> names = {"accuracy", "f1", "precision", "recall", "matthews_correlation"};
  if (kind == MetricKind::kRegression) names = {"mse", "pearson", "spearmanr"};
  if (kind == MetricKind::kMultiLabel) names = {"f1", "accuracy", "precision", "recall", "roc_auc"};
  if (std::find(names.begin(), names.end(), *metric) != names.end()) return;
  fail(ErrorKind::kUsage, "metric_name: expected one of {}{}, found {}{}", fmt::join(names, ", "),
       kind == MetricKind::kRegression   ? " for regression"
       : kind == MetricKind::kMultiLabel ? " for several labels at once"
                                         : "",
       transom::quoted(*metric), did_you_mean(*metric, names));
}

std::vector<std::string> metric_names(MetricKind kind, const std::optional<std::string>& glue_task,
                                      const std::optional<std::string>& metric) {
  if (metric) return {*metric};
  const std::string task = glue_task.value_or("");
  if (kind == MetricKind::kMultiLabel) return {"f1"};
  if (kind == MetricKind::kRegression) {
    if (task == "stsb") return {"pearson", "spearmanr", "combined_score"};
    return {"mse"};
  }
  if (task == "cola") return {"matthews_correlation"};
  if (task == "mrpc" || task == "qqp") return {"accuracy", "f1", "combined_score"};
  return {"accuracy"};
}

double roc_auc(Classes labels, Numbers scores) {
  require(labels.size() == scores.size(), "roc_auc: expected {} scores, found {}", labels.size(), scores.size());
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); }))
    return std::numeric_limits<double>::quiet_NaN();  // they have no order
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double below = 0, pairs = 0, positives = 0;  // rows of class 0 so far
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double zeros = 0, ones = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      (labels[order[end]] == 1 ? ones : zeros) += 1;
    pairs += ones * (below + zeros / 2);
    below += zeros, positives += ones;
  }
  return pairs / (positives * below);
}

}  // namespace transom
