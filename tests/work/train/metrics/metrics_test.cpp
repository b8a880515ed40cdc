// SPDX-License-Identifier: Apache-2.0
// The numbers are those of scikit-learn, scipy, seqeval and SQuAD's own script.
#include "work/train/metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/message.h"
#include "work/train/metrics/entity_metrics.h"
#include "work/train/metrics/squad_metrics.h"

namespace transom {
namespace {

const std::vector<int64_t> kLabels = {0, 1, 2, 2, 1, 0, 1, 2, 2, 0}, kPredictions = {0, 2, 2, 2, 1, 0, 0, 2, 1, 3};
const std::vector<int64_t> kTruths = {0, 1, 1, 0, 1, 1, 0}, kGuesses = {1, 1, 0, 0, 1, 1, 0};
const std::vector<double> kNumbers = {0.5, 1.5, 1.5, 3.0, 4.25, 2.0}, kEstimates = {0.7, 1.0, 2.5, 2.5, 5.0, 2.5};

void expect_scores(const PrecisionRecall& found, double precision, double recall, double f1) {
  EXPECT_DOUBLE_EQ(found.precision, precision);
  EXPECT_DOUBLE_EQ(found.recall, recall);
  EXPECT_DOUBLE_EQ(found.f1, f1);
}

TEST(Metrics, AreaUnderTheCurve) {
  const std::vector<int64_t> labels = {0, 0, 1, 1, 1, 0}, one_class = {1, 1};
  EXPECT_DOUBLE_EQ(roc_auc(labels, std::vector<double>{0.1, 0.4, 0.35, 0.8, 0.4, 0.2}), 7.5 / 9);
  EXPECT_DOUBLE_EQ(roc_auc(labels, std::vector<double>(6, 0.5)), 0.5);
  EXPECT_TRUE(std::isnan(roc_auc(one_class, std::vector<double>{0.5, 0.6})));
  EXPECT_TRUE(std::isnan(roc_auc(one_class, std::vector<double>{0.5, std::nan("")})));
}

TEST(Metrics, Classes) {
  EXPECT_DOUBLE_EQ(accuracy(kLabels, kPredictions), 0.6);
  expect_scores(precision_recall_f1(kLabels, kPredictions, Average::kMicro), 0.6, 0.6, 0.6);
  expect_scores(precision_recall_f1(kLabels, kPredictions, Average::kMacro), 0.47916666666666663, 0.4375,
                0.45416666666666666);
  expect_scores(precision_recall_f1(kLabels, kPredictions, Average::kWeighted), 0.65, 0.6, 0.62);
  expect_scores(precision_recall_f1(kTruths, kGuesses, Average::kBinary), 0.75, 0.75, 0.75);
  expect_scores(precision_recall_f1(kTruths, kGuesses, Average::kBinary, 7), 0, 0, 0);
  EXPECT_DOUBLE_EQ(matthews_correlation(kLabels, kPredictions), 0.42665516759396227);
  EXPECT_DOUBLE_EQ(matthews_correlation(kTruths, kGuesses), 0.4166666666666667);
  const std::vector<int64_t> same = {1, 1};
  EXPECT_EQ(matthews_correlation(same, same), 0);
  EXPECT_THROW(accuracy(kLabels, kTruths), Error);
  EXPECT_THROW(accuracy({}, {}), Error);
}

TEST(Metrics, Numbers) {
  EXPECT_NEAR(pearson(kNumbers, kEstimates), 0.9110178246927492, 1e-15);
  EXPECT_NEAR(spearman(kNumbers, kEstimates), 0.8932596002688613, 1e-15);
  EXPECT_NEAR(mean_squared_error(kNumbers, kEstimates), 0.39208333333333334, 1e-15);
  EXPECT_DOUBLE_EQ(perplexity(0), 1);
  EXPECT_TRUE(std::isinf(perplexity(1e4)));
}

TEST(Metrics, OfTasks) {
  EXPECT_EQ(to_json(class_metrics("mrpc", {}, kTruths, kGuesses)),
            R"({"accuracy": 0.7142857142857143, "f1": 0.75, "combined_score": 0.7321428571428572})");
  EXPECT_EQ(to_json(class_metrics("cola", {}, kTruths, kGuesses)), R"({"matthews_correlation": 0.4166666666666667})");
  EXPECT_EQ(to_json(class_metrics({}, {}, kLabels, kPredictions)), R"({"accuracy": 0.6})");
  EXPECT_EQ(to_json(class_metrics({}, "f1", kTruths, kGuesses)), R"({"f1": 0.75})");
  EXPECT_THROW(class_metrics({}, "bleu", kTruths, kGuesses), Error);
  EXPECT_EQ(regression_metrics("stsb", {}, kNumbers, kEstimates).size(), 3U);
  EXPECT_EQ(regression_metrics({}, {}, kNumbers, kEstimates)[0].first, "mse");
  EXPECT_THROW(regression_metrics({}, "accuracy", kNumbers, kEstimates), Error);
  const std::vector<float> labels = {1, 0, 1, 1}, logits = {2, 1, -1, 3};
  EXPECT_EQ(to_json(multi_label_metrics({}, labels, logits, 2)), R"({"f1": 0.6666666666666666})");
}

// As scikit-learn: accuracy is of whole rows; the others are over all decisions (average="micro").
TEST(Metrics, OfSeveralLabelsAtOnce) {
  const std::vector<float> labels = {1, 0, 1, 0, 1, 1, 0, 0, 0}, logits = {2, -1, 1, -3, 1, -1, 1, -1, -2};
  const auto score = [&](const char* name) { return find_number(multi_label_metrics(name, labels, logits, 3), name); };
  EXPECT_EQ(score("accuracy"), 1.0 / 3);
  EXPECT_EQ(score("precision"), 3.0 / 4);
  EXPECT_EQ(score("recall"), 3.0 / 4);
  EXPECT_EQ(score("f1"), 3.0 / 4);
  // Of 20 pairs of a one and a zero: -1 is above -2 and -3, and level with two; 1 is level with 1 twice.
  EXPECT_EQ(score("roc_auc"), (5 + 4.5 + 4.5 + 3.0) / 20);
  EXPECT_EQ(
      test::message_of([&] { score("mse"); }),
      "metric_name: expected one of f1, accuracy, precision, recall, roc_auc for several labels at once, found 'mse'.");
}

// What a run checks before it trains is what an evaluation gives.
TEST(Metrics, HaveTheNamesThatAreKnownBefore) {
  const std::vector<float> several = {1, 0, 1, 1};
  const auto names = [](const LogRecord& record) {
    std::vector<std::string> result;
    for (const auto& [name, value] : record) result.push_back(name);
    return result;
  };
  using Metric = std::optional<std::string>;
  for (const Metric& task : {Metric(), Metric("cola"), Metric("mrpc"), Metric("qqp"), Metric("rte")})
    for (const Metric& metric : {Metric(), Metric("f1"), Metric("accuracy"), Metric("matthews_correlation")})
      EXPECT_EQ(names(class_metrics(task, metric, kTruths, kGuesses)),
                metric_names(MetricKind::kClasses, task, metric));
  for (const Metric& task : {Metric(), Metric("stsb")})
    for (const Metric& metric : {Metric(), Metric("mse"), Metric("spearmanr")})
      EXPECT_EQ(names(regression_metrics(task, metric, kNumbers, kEstimates)),
                metric_names(MetricKind::kRegression, task, metric));
  for (const Metric& metric : {Metric(), Metric("roc_auc"), Metric("recall")})
    EXPECT_EQ(names(multi_label_metrics(metric, several, several, 2)),
              metric_names(MetricKind::kMultiLabel, {}, metric));
}

const TagRows kTags = {
    {"O", "B-PER", "I-PER", "O", "B-LOC", "I-LOC"}, {"I-ORG", "I-ORG", "O", "B-PER", "B-PER"}, {"E-X", "S-Y", "O"}};
const TagRows kFound = {{"O", "B-PER", "I-PER", "I-PER", "B-LOC", "I-LOC"},
                        {"I-ORG", "B-ORG", "O", "B-PER", "I-PER"},
                        {"I-X", "S-Y", "I-Y"}};

TEST(Entities, AreThoseOfSeqeval) {
  EXPECT_EQ(entities(kTags[0]), (std::vector<Entity>{{"PER", 1, 2}, {"LOC", 4, 5}}));
  EXPECT_EQ(entities(kTags[1]), (std::vector<Entity>{{"ORG", 0, 1}, {"PER", 3, 3}, {"PER", 4, 4}}));
  EXPECT_EQ(entities(kFound[2]), (std::vector<Entity>{{"X", 0, 0}, {"Y", 1, 1}, {"Y", 2, 2}}));
  EXPECT_EQ(entities({}), std::vector<Entity>{});
  EXPECT_EQ(to_json(entity_metrics(kTags, kFound, false)),
            R"({"precision": 0.375, "recall": 0.42857142857142855, "f1": 0.39999999999999997, )"
            R"("accuracy": 0.6428571428571429})");
  const LogRecord types = entity_metrics(kTags, kFound, true);
  EXPECT_EQ(find_number(types, "Y_f1"), 0.6666666666666666);
  EXPECT_EQ(find_number(types, "PER_number"), 3);
  EXPECT_EQ(find_number(types, "overall_recall"), 0.42857142857142855);
  EXPECT_THROW(entity_metrics({{"O"}}, {{}}, false), Error);
}

TEST(Squad, AnswersAreNormalised) {
  EXPECT_EQ(normalized_answer("The  Eiffel-Tower, (in) an `old` \u00C9tat!"), "eiffeltower in old \u00e9tat");
  EXPECT_EQ(normalized_answer("a.an the\u00a0theory"), "aan theory");
  EXPECT_EQ(normalized_answer("The"), "");
}

TEST(Squad, Scores) {
  const std::vector<AnswerPair> pairs = {
      {"the old tower", {"a tower", "Old Tower!"}}, {"in the old tower", {"tower"}}, {"x", {"y"}}};
  EXPECT_EQ(to_json(squad_metrics(pairs)), R"({"exact_match": 33.333333333333336, "f1": 50.0})");
  EXPECT_EQ(
      to_json(squad_v2_metrics({{"", {}}, {"x", {}}, {"x", {"x"}}})),
      R"({"exact": 66.66666666666667, "f1": 66.66666666666667, "total": 3, "HasAns_exact": 100.0, "HasAns_f1": 100.0, )"
      R"("HasAns_total": 1, "NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2, "best_exact": 66.66666666666667, "best_exact_thresh": 0.0, )"
      R"("best_f1": 66.66666666666667, "best_f1_thresh": 0.0})");
}

}  // namespace
}  // namespace transom
