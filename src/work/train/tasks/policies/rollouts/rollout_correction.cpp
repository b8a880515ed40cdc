// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/rollout_correction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "work/train/tasks/policies/rollouts/of_processes.h"

namespace transom {
namespace {

constexpr const char *kMeanDistance = "sampling/sampling_logp_difference/mean",
                     *kMostDistance = "sampling/sampling_logp_difference/max",
                     *kLeastWeight = "sampling/importance_sampling_ratio/min",
                     *kMeanWeight = "sampling/importance_sampling_ratio/mean",
                     *kMostWeight = "sampling/importance_sampling_ratio/max";

float bounded(double logarithm, const RolloutCorrection& correction) {
  const double weight = std::exp(logarithm);
  const double least = correction.least.value_or(-std::numeric_limits<double>::infinity()),
               most = correction.most.value_or(std::numeric_limits<double>::infinity());
  if (correction.masks) return weight < least || weight > most ? 0.0f : static_cast<float>(weight);
  return static_cast<float>(std::min(std::max(weight, least), most));
}

// A mean, and the least and the largest number.
struct Spread {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  int64_t count = 0;

  void add(double value) {
    sum += value, ++count;
    least = std::min(least, value), most = std::max(most, value);
  }
  // TRL takes 0 for each of nothing.
  std::vector<float> numbers() const {
    if (count == 0) return {0, 0, 0};
    return {static_cast<float>(sum / static_cast<double>(count)), static_cast<float>(least), static_cast<float>(most)};
  }
};

}  // namespace

std::vector<float> weights_of_rollout(const Rollout& row, const RolloutCorrection& correction) {
  if (row.old.size() != row.sampled.size() || row.old.empty())
    fail(ErrorKind::kInternal, "a completion has {} log probabilities of the step and {} of its writer", row.old.size(),
         row.sampled.size());
  std::vector<float> weights;
  double all = 0;
  for (size_t i = 0; i < row.old.size(); ++i) {
    const double distance = row.counts ? row.old[i] - row.sampled[i] : 0.0f;
    if (correction.of_sequences) all += distance;
    else weights.push_back(bounded(distance, correction));
  }
  if (correction.of_sequences) weights.push_back(bounded(all, correction));
  return weights;
}

std::vector<std::pair<std::string, double>> measured_correction(std::span<const Rollout> rows,
                                                                const RolloutCorrection& correction, bool of_all) {
  Spread distances, weights;
  for (const Rollout& row : rows) {
    for (size_t i = 0; row.counts && i < row.old.size(); ++i) distances.add(std::abs(row.old[i] - row.sampled[i]));
    for (const float weight : row.weights)
      if (row.counts || correction.of_sequences) weights.add(weight);
  }
  std::vector<float> mine = distances.numbers(), of_weights = weights.numbers();
  mine.insert(mine.end(), of_weights.begin(), of_weights.end());
  const std::vector<float> all = of_all ? of_all_processes(mine) : mine;
  Spread means, mosts, mean_weights, weight_bounds;
  for (size_t i = 0; i < all.size(); i += mine.size()) {
    means.add(all[i]), mosts.add(all[i + 2]);
    mean_weights.add(all[i + 3]), weight_bounds.add(all[i + 4]), weight_bounds.add(all[i + 5]);
  }
  return {{kMeanDistance, means.numbers()[0]},
          {kMostDistance, mosts.most},
          {kLeastWeight, weight_bounds.least},
          {kMeanWeight, mean_weights.numbers()[0]},
          {kMostWeight, weight_bounds.most}};
}

std::vector<std::string> names_of_correction() {
  return {kMeanDistance, kMostDistance, kLeastWeight, kMeanWeight, kMostWeight};
}

}  // namespace transom
