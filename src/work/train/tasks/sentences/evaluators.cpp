// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/evaluators.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "base/threads/threads.h"

namespace transom {
namespace {

double pearson(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    both += x * y, of_a += x * x, of_b += y * y;
  }
  return both / std::sqrt(of_a * of_b);
}

// Their places from 1, equal values at the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) result[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return result;
}

constexpr size_t kPlaces[] = {1, 3, 5, 10};
constexpr size_t kGainPlaces = 10, kPrecisionPlaces = 100;

// What one query adds to the means.
struct QueryMetrics {
  double accuracy[4] = {}, precision[4] = {}, recall[4] = {}, gain = 0, reciprocal = 0, average_precision = 0;
};

QueryMetrics metrics_of_query(const std::vector<int64_t>& found, const std::unordered_set<int64_t>& relevant) {
  QueryMetrics metrics;
  const auto is_relevant = [&](size_t place) { return place < found.size() && relevant.contains(found[place]); };
  for (size_t k = 0; k < std::size(kPlaces); ++k) {
    double hits = 0;
    for (size_t i = 0; i < kPlaces[k]; ++i) hits += is_relevant(i);
    metrics.accuracy[k] = hits > 0;
    metrics.precision[k] = hits / static_cast<double>(kPlaces[k]);
    metrics.recall[k] = hits / static_cast<double>(relevant.size());
  }
  double ideal = 0;
  for (size_t i = 0; i < kGainPlaces; ++i) {
    const double gain = 1 / std::log2(static_cast<double>(i) + 2);
    if (is_relevant(i)) {
      metrics.gain += gain;
      if (metrics.reciprocal == 0) metrics.reciprocal = 1 / static_cast<double>(i + 1);
    }
    if (i < relevant.size()) ideal += gain;
  }
  metrics.gain /= ideal;
  double hits = 0;
  for (size_t i = 0; i < std::min(kPrecisionPlaces, found.size()); ++i)
    if (is_relevant(i)) metrics.average_precision += ++hits / static_cast<double>(i + 1);
  metrics.average_precision /= static_cast<double>(std::min(kPrecisionPlaces, relevant.size()));
  return metrics;
}

}  // namespace

Metrics similarity_metrics(const VectorRows& first, const VectorRows& second, const std::vector<float>& scores,
                           Similarity similarity) {
  std::vector<double> found, expected(scores.begin(), scores.end());
  for (int64_t row = 0; row < first.rows; ++row)
    found.push_back(similarity_of(similarity, first.row(row), second.row(row)));
  if (found.size() != expected.size() || found.size() < 2) return {};
  const std::string name = name_of(similarity);
  return {{"pearson_" + name, pearson(found, expected)}, {"spearman_" + name, pearson(ranks(found), ranks(expected))}};
}

Metrics triplet_metrics(const VectorRows& anchors, const VectorRows& positives, const VectorRows& negatives,
                        Similarity similarity) {
  double right = 0;
  for (int64_t row = 0; row < anchors.rows; ++row)
    right += similarity_of(similarity, anchors.row(row), positives.row(row)) >
             similarity_of(similarity, anchors.row(row), negatives.row(row));
  return {{name_of(similarity) + "_accuracy", right / static_cast<double>(std::max<int64_t>(1, anchors.rows))}};
}

Metrics retrieval_metrics(const VectorRows& queries, const VectorRows& documents,
                          const std::vector<std::vector<int64_t>>& relevant, Similarity similarity) {
  std::vector<std::vector<float>> all;
  for (int64_t i = 0; i < documents.rows; ++i) all.push_back(documents.row(i));
  std::vector<QueryMetrics> each(static_cast<size_t>(queries.rows));
  parallel_for(each.size(), [&](size_t q) {
    const std::vector<float> query = queries.row(static_cast<int64_t>(q));
    std::vector<double> close;
    for (const std::vector<float>& document : all) close.push_back(similarity_of(similarity, query, document));
    std::vector<int64_t> order(close.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    const size_t kept = std::min(kPrecisionPlaces, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](int64_t a, int64_t b) {
                        const double x = close[static_cast<size_t>(a)], y = close[static_cast<size_t>(b)];
                        return x != y ? x > y : a < b;
                      });
    order.resize(kept);
    each[q] = metrics_of_query(order, {relevant[q].begin(), relevant[q].end()});
  });
  const auto mean = [&](auto&& value) {
    double sum = 0;
    for (const QueryMetrics& one : each) sum += value(one);
    return sum / static_cast<double>(std::max<size_t>(1, each.size()));
  };
  const std::string name = name_of(similarity) + "_";
  Metrics metrics;
  const auto at_places = [&](const char* what, const double(QueryMetrics::*values)[4]) {
    for (size_t k = 0; k < std::size(kPlaces); ++k)
      metrics.emplace_back(fmt::format("{}{}@{}", name, what, kPlaces[k]),
                           mean([&](const QueryMetrics& one) { return (one.*values)[k]; }));
  };
  at_places("accuracy", &QueryMetrics::accuracy);
  at_places("precision", &QueryMetrics::precision);
  at_places("recall", &QueryMetrics::recall);
  metrics.emplace_back(name + "ndcg@10", mean([](const QueryMetrics& one) { return one.gain; }));
  metrics.emplace_back(name + "mrr@10", mean([](const QueryMetrics& one) { return one.reciprocal; }));
  metrics.emplace_back(name + "map@100", mean([](const QueryMetrics& one) { return one.average_precision; }));
  return metrics;
}

}  // namespace transom
