// SPDX-License-Identifier: Apache-2.0
// The losses of completions and their advantages, and what the log shows of a batch.
#pragma once

#include <string>
#include <vector>

#include "transom/model.h"
#include "work/train/log/batch_measures.h"
#include "work/train/tasks/policies/policy_options.h"

namespace transom {

// Of R completions in rows of T tokens; [R, T - 1] are places that predict the token behind them.
struct PolicyScores {
  Tensor logps;       // f32 [R, T - 1]: of the tokens of completions, 0 elsewhere
  Tensor old;         // the same under the policy that wrote them; undefined: logps themselves
  Tensor reference;   // the same under the reference; undefined: none
  Tensor entropies;   // f32 [R, T - 1]
  Tensor counted;     // f32 [R, T - 1]: 1 where the token is learnt
  Tensor advantages;  // f32 [R]
  Tensor normaliser;  // f32 []: what losses that are sums over tokens divide by
  Tensor parts;       // f32 []: so many batches are one update
  Tensor rewards;     // f32 [R], of Online DPO
  Tensor sampled;     // f32 [R, T - 1]: as logps, when they were written; undefined: old
  Tensor weights;     // f32 [R, T - 1]: of losses, as weights_of_rollout; undefined: 1
};

struct PolicyLoss {
  Tensor loss;  // f32 []: of this batch; an update's is the mean over its batches
  Tensor sums;  // f32 [k], for policy_measures
};

// `rank` of `ranks` processes, whose rows are one batch.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyLossOptions& options, int64_t rank, int64_t ranks);

// Names as TRL's: entropy, kl, clip_ratio/... ; `sums` are read from the output "policy_sums".
BatchMeasures policy_measures(const PolicyLossOptions& options);

}  // namespace transom
