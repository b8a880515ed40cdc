// SPDX-License-Identifier: Apache-2.0
// Importance sampling between the weights that write completions and those that learn from them: truncated (Yao et al.,
// "Your efficient RL framework secretly brings you off-policy RL training", 2025) or masked, as GRPOTrainer corrects
// for vLLM.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "work/train/tasks/policies/rollouts/rollouts.h"

namespace transom {

struct RolloutCorrection {
  bool on = false;
  bool of_sequences = true;  // one weight for each completion; else for each token
  bool masks = true;         // weights outside of the bounds become 0; else they are cut to them
  std::optional<double> least, most = 3;
};

// The weights of a completion's tokens, from Rollout::old and Rollout::sampled: the probability in the step, as a part
// of that with which it was drawn; 1 where nothing is learnt from the completion. One number for all tokens where the
// correction is of completions.
std::vector<float> weights_of_rollout(const Rollout& row, const RolloutCorrection& correction);

// What TRL logs of these completions, and those of other processes if each has its own: distances of log probabilities,
// and the weights.
std::vector<std::pair<std::string, double>> measured_correction(std::span<const Rollout> rows,
                                                                const RolloutCorrection& correction, bool of_all);
std::vector<std::string> names_of_correction();

}  // namespace transom
