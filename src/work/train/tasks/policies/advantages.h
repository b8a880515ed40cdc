// SPDX-License-Identifier: Apache-2.0
// From rewards of completions to how much better each is than the others of its prompt.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "work/train/tasks/policies/policy_options.h"

namespace transom {

// NaN: a reward says nothing about this completion. By completion, those of a prompt behind each other.
struct RewardTable {
  std::vector<std::string> names;
  std::vector<std::vector<float>> of_rewards;  // [rewards][completions]
};

struct Advantages {
  std::vector<float> values;                             // 0 where no reward says anything
  std::vector<std::pair<std::string, double>> measured;  // rewards/NAME/mean, reward, reward_std ... as TRL logs them
};

// `divergence`: of RLOO with beta, the sum over each completion's tokens of log policy - log reference. `generations`:
// completions of a prompt.
Advantages advantages_of(const RewardTable& rewards, const std::vector<float>& divergence, int64_t generations,
                         const AdvantageOptions& options);

// Of two completions of each prompt: 1 for the one whose weighted rewards are larger, or as large and the first one,
// and -1 for the other. Measured as TRL's OnlineDPOTrainer does.
struct PairPreferences {
  Advantages sides;
  std::vector<float> scores;
};
PairPreferences preferences_of(const RewardTable& rewards, const std::vector<double>& weights);

}  // namespace transom
