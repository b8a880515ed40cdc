// SPDX-License-Identifier: Apache-2.0
// What is asked of a run that trains a policy, checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transom/training_arguments.h"
#include "work/train/tasks/policies/rollouts/rollout_correction.h"

namespace transom {

constexpr std::string_view kOnlinePreferences = "online-dpo";  // the name of the task

// The loss of a batch of completions, by TRL's names (GRPO: Shao et al., 2024; RLOO: Ahmadian et al., 2024).
struct PolicyLossOptions {
  bool leave_one_out = false;  // RLOO: ratios of whole completions, the divergence is part of the reward
  std::string type = "dapo";
  double beta = 0, epsilon_low = 0.2, epsilon_high = 0.2;
  std::optional<double> delta, off_policy_threshold;
  bool of_sequences = false;  // importance_sampling_level
  bool corrects_divergence = true;
  double entropy_coefficient = 0;
  double temperature = 1;
  int64_t most_tokens = 512;  // of a completion
  double sapo_negative = 1.05, sapo_positive = 1;
  double k_positive = 2, lambda_positive = 3, k_negative = 3, lambda_negative = 2;
  bool drops_out = true;
  // Online DPO: of the two completions of a prompt the one with the larger reward is preferred. `type` is the loss of
  // their odds, sigmoid or ipo.
  bool of_pairs = false;
};

// How rewards become advantages.
struct AdvantageOptions {
  bool leave_one_out = false;
  std::vector<double> weights;  // one for each reward
  enum class Scale { kGroup, kBatch, kNone } scale = Scale::kGroup;
  bool normalizes_each = false;  // multi_objective_aggregation: normalize_then_sum
  // RLOO
  bool normalizes = false;
  std::optional<std::pair<double, double>> clip;
  double beta = 0;
};

// When completions are written, and how often they are learnt from. A batch is that of a device: the rows of one pass.
struct GenerationPlan {
  int64_t generations = 8, evaluated_generations = 8;  // completions of a prompt
  int64_t batch_rows = 8, evaluated_rows = 8;          // of a device
  int64_t steps = 1;                                   // batches that completions are written for at once
  int64_t iterations = 1;                              // how often they are learnt from
  // Where weights are spread over processes, a batch is that of all of them, and there is one.
  int64_t processes = 1, process = 0;
  int64_t writers = 1, writer = 0;  // processes that then share the work of writing, and this one among them
  int64_t seed = 42;
  bool shuffles = true;
  bool keeps_order = false;  // completions are learnt from in the order of their prompts
  bool masks_truncated = false;

  int64_t batches_of_generation() const { return steps * iterations; }
  int64_t rows_of_process() const { return batch_rows * steps; }
  int64_t rows_of_generation() const { return rows_of_process() * processes; }
  int64_t prompts_of_generation() const { return rows_of_generation() / generations; }
};

// Refuse what TRL refuses, by the names of the arguments.
PolicyLossOptions policy_loss_options(const TrainArguments& arguments);
AdvantageOptions advantage_options(const TrainArguments& arguments, size_t rewards);
GenerationPlan generation_plan(const TrainArguments& arguments);
RolloutCorrection rollout_correction(const TrainArguments& arguments);
// Whether completions may be of an earlier policy than the one that learns from them, whose log probabilities are then
// kept.
bool keeps_old_probabilities(const TrainArguments& arguments, const GenerationPlan& plan,
                             const RolloutCorrection& correction);

}  // namespace transom
