// SPDX-License-Identifier: Apache-2.0
// Online DPO (Guo et al., "Direct language model alignment from online AI feedback", 2024), as TRL's OnlineDPOTrainer
// computes and logs it.
#pragma once

#include "work/train/tasks/policies/policy_losses.h"

namespace transom {

// Of R completions, two of a prompt behind each other: advantages are 1 for the preferred one and -1 for the other.
// logps, reference, counted and rewards are read. A batch of the loss is R / 2 pairs.
PolicyLoss pair_loss(const PolicyScores& scores, const PolicyLossOptions& options);

// rewards/chosen, objective/kl ... ; `sums` are read from the output "policy_sums".
BatchMeasures pair_measures();

}  // namespace transom
