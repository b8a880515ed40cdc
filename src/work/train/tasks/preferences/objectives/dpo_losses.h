// SPDX-License-Identifier: Apache-2.0
// The losses of direct preference optimisation (Rafailov et al., 2023) and of what came after it, by TRL's names.
#pragma once

#include <string>
#include <vector>

#include "transom/model.h"
#include "transom/training_arguments.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

namespace transom {

struct DpoOptions {
  std::vector<std::string> loss_types = {"sigmoid"};
  std::vector<double> weights = {1};
  double beta = 0.1, label_smoothing = 0, discopop_tau = 0.05, divergence_alpha = 0.5;
  std::string divergence = "reverse_kl";
  bool use_weighting = false;
  std::optional<double> length_alpha;  // of LD-DPO
};

// Refuses what TRL refuses, by the names of the arguments.
DpoOptions dpo_options(const ScriptArguments& script);

// Of N pairs, f32 [N] each.
struct PairScores {
  Tensor chosen, rejected;                      // log probabilities under the policy
  Tensor reference_chosen, reference_rejected;  // under the reference
  Tensor chosen_length, rejected_length;        // in tokens
  Tensor weights;                               // of each pair's loss; undefined: 1
  Tensor chosen_nll, chosen_tokens;  // f32 []: minus the log probabilities of all chosen tokens, and their count
};

// The weighted sum of the losses, f32 []; each is a mean over pairs (or, of sft, over tokens) that divides by what
// `context` says.
Tensor dpo_loss(const PairScores& scores, const DpoOptions& options, const ForwardContext& context);

}  // namespace transom
