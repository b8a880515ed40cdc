// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"

namespace transom {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallDeviation = 1e-4f;

// Of what is a number; rounded where TRL rounds, since a sum of advantages is near to 0.
struct Known {
  float mean = kNothing, deviation = kNothing;
  int64_t count = 0;
};

Known known_of(std::span<const float> values) {
  Known known;
  double sum = 0, squares = 0;
  for (const float value : values)
    if (!std::isnan(value)) sum += value, ++known.count;
  if (known.count == 0) return known;
  const auto count = static_cast<float>(known.count);
  known.mean = static_cast<float>(sum / count);
  for (const float value : values)
    if (!std::isnan(value)) squares += static_cast<double>(value - known.mean) * (value - known.mean);
  if (known.count > 1) known.deviation = std::sqrt(static_cast<float>(squares / count) * (count / (count - 1)));
  return known;
}

std::span<const float> group_of(const std::vector<float>& values, size_t group, size_t size) {
  return std::span(values).subspan(group * size, size);
}

bool is_nearly_zero(float deviation) { return std::abs(deviation) <= 1e-8f; }

std::vector<float> weighted_sums(const std::vector<std::vector<float>>& rewards, const std::vector<double>& weights) {
  std::vector<float> sums(rewards.at(0).size(), 0);
  for (size_t row = 0; row < sums.size(); ++row) {
    bool any = false;
    for (size_t i = 0; i < rewards.size(); ++i)
      if (const float reward = rewards[i][row]; !std::isnan(reward))
        sums[row] += reward * static_cast<float>(weights[i]), any = true;
    if (!any) sums[row] = kNothing;
  }
  return sums;
}

struct Made {
  std::vector<float> values;
  double equal_groups = 0;  // the part of the completions (RLOO: prompts) whose rewards do not differ
};

Made group_advantages(const RewardTable& rewards, size_t size, const AdvantageOptions& options) {
  Made made;
  if (options.normalizes_each) {
    std::vector<std::vector<float>> each = rewards.of_rewards;
    for (std::vector<float>& of_reward : each)
      for (size_t g = 0; g * size < of_reward.size(); ++g) {
        const Known known = known_of(group_of(of_reward, g, size));
        const float deviation = size > 1 ? known.deviation : 0;
        for (size_t i = g * size; i < (g + 1) * size; ++i)
          of_reward[i] = (of_reward[i] - known.mean) / (deviation + kSmallDeviation);
      }
    made.values = weighted_sums(each, options.weights);
    const Known all = known_of(made.values);
    const float deviation = made.values.size() > 1 ? all.deviation : 0;
    for (float& value : made.values) value = (value - all.mean) / (deviation + kSmallDeviation);
    made.equal_groups = is_nearly_zero(deviation) ? 1 : 0;
    return made;
  }
  made.values = weighted_sums(rewards.of_rewards, options.weights);
  const Known all = known_of(made.values);
  const std::vector<float> sums = made.values;
  int64_t equal = 0;
  for (size_t g = 0; g * size < sums.size(); ++g) {
    const Known known = known_of(group_of(sums, g, size));
    const bool by_batch = options.scale == AdvantageOptions::Scale::kBatch;
    const float deviation = by_batch ? (sums.size() > 1 ? all.deviation : 0) : size > 1 ? known.deviation : 0;
    for (size_t i = g * size; i < (g + 1) * size; ++i) {
      made.values[i] = sums[i] - known.mean;
      if (options.scale != AdvantageOptions::Scale::kNone) made.values[i] /= deviation + kSmallDeviation;
      equal += is_nearly_zero(deviation);
    }
  }
  made.equal_groups = static_cast<double>(equal) / static_cast<double>(sums.size());
  return made;
}

Made leave_one_out_advantages(const RewardTable& rewards, const std::vector<float>& divergence, size_t size,
                              const AdvantageOptions& options) {
  std::vector<float> sums = weighted_sums(rewards.of_rewards, options.weights);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (options.clip && !std::isnan(sums[i]))
      sums[i] = static_cast<float>(std::clamp(static_cast<double>(sums[i]), options.clip->first, options.clip->second));
    if (options.beta != 0) sums[i] -= static_cast<float>(options.beta) * divergence.at(i);
  }
  Made made;
  made.values.assign(sums.size(), 0);
  int64_t equal = 0;
  for (size_t g = 0; g * size < sums.size(); ++g) {
    const Known known = known_of(group_of(sums, g, size));
    equal += is_nearly_zero(size > 1 ? known.deviation : 0);
    float total = 0;
    for (const float value : group_of(sums, g, size))
      if (!std::isnan(value)) total += value;
    for (size_t i = g * size; i < (g + 1) * size && size > 1; ++i)
      made.values[i] = sums[i] - (total - sums[i]) / static_cast<float>(known.count - 1);
  }
  if (options.normalizes) {
    for (float& value : made.values)
      if (std::isinf(value)) value = kNothing;
    const Known all = known_of(made.values);
    for (float& value : made.values) value = (value - all.mean) / (all.deviation + kSmallDeviation);
  }
  made.equal_groups = static_cast<double>(equal) / (static_cast<double>(sums.size()) / static_cast<double>(size));
  return made;
}

}  // namespace

Advantages advantages_of(const RewardTable& rewards, const std::vector<float>& divergence, int64_t generations,
                         const AdvantageOptions& options) {
  const auto size = static_cast<size_t>(generations);
  const size_t rows = rewards.of_rewards.at(0).size();
  require(rows % size == 0, "rewards: expected those of whole groups of {}, found {}", size, rows);
  Made made = options.leave_one_out ? leave_one_out_advantages(rewards, divergence, size, options)
                                    : group_advantages(rewards, size, options);
  for (float& value : made.values)
    if (!std::isfinite(value)) value = 0;
  Advantages result{.values = std::move(made.values), .measured = {}};
  for (size_t i = 0; i < rewards.names.size(); ++i) {
    const Known known = known_of(rewards.of_rewards[i]);
    result.measured.emplace_back("rewards/" + rewards.names[i] + "/mean", known.mean);
    result.measured.emplace_back("rewards/" + rewards.names[i] + "/std", known.deviation);
  }
  const Known all = known_of(weighted_sums(rewards.of_rewards, options.weights));
  result.measured.emplace_back("reward", all.mean);
  result.measured.emplace_back("reward_std", all.deviation);
  result.measured.emplace_back("frac_reward_zero_std", made.equal_groups);
  return result;
}

PairPreferences preferences_of(const RewardTable& rewards, const std::vector<double>& weights) {
  PairPreferences made;
  made.scores = weighted_sums(rewards.of_rewards, weights);
  for (float& score : made.scores)
    if (std::isnan(score)) score = 0;
  const size_t count = made.scores.size();
  double total = 0, margin = 0;
  for (size_t i = 0; i + 1 < count; i += 2) {
    const float first = made.scores[i], second = made.scores[i + 1];
    const bool keeps = first >= second;
    made.sides.values.push_back(keeps ? 1.0f : -1.0f);
    made.sides.values.push_back(keeps ? -1.0f : 1.0f);
    total += first + second, margin += std::abs(first - second);
  }
  const double pairs = static_cast<double>(std::max<size_t>(count / 2, 1));
  made.sides.measured = {{"objective/scores", total / (2 * pairs)}, {"objective/scores_margin", margin / pairs}};
  return made;
}

}  // namespace transom
