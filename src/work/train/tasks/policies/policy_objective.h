// SPDX-License-Identifier: Apache-2.0
// Group relative policy optimisation and RLOO as GRPOTrainer and RLOOTrainer compute and log them: before an update
// whose turn it is, completions are written and scored.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transom/batch.h"
#include "transom/tokenizer.h"
#include "work/train/tasks/policies/advantages.h"
#include "work/train/tasks/policies/policy_losses.h"
#include "work/train/tasks/policies/policy_rows.h"
#include "work/train/tasks/policies/rewards/rewards.h"
#include "work/train/tasks/policies/rollouts/completion_writer.h"
#include "work/train/tasks/policies/rollouts/completions_log.h"
#include "work/train/tasks/policies/rollouts/of_processes.h"
#include "work/train/tasks/policies/rollouts/rollout_weights.h"
#include "work/train/tasks/policies/rollouts/rollouts.h"
#include "work/train/tasks/preferences/objectives/dpo_objective.h"

namespace transom {

struct PolicyRun {
  PolicyLossOptions loss;
  AdvantageOptions advantages;
  GenerationPlan plan;
  bool keeps_old = false;  // keeps_old_probabilities
  RolloutCorrection correction;
  std::shared_ptr<RolloutWeights> rollout_weights;  // null: those that learn write completions
  std::shared_ptr<CompletionWriter> writer, evaluation_writer;
  std::vector<Reward> rewards;
  Tokenizer tokenizer;
  TokenIds ends;  // tokens that end a completion, and the padding
  PaddingOptions padding;
  Computing computing;  // of a step
  std::shared_ptr<const PolicyPrompts> train, validation;
  std::shared_ptr<const PromptOrder> order;
  std::optional<CompletionsLog> log;
};

// Inputs of a batch, once it is completed: input_ids, attention_mask, completion_mask [R, T] (1 where a token is
// learnt), advantages f32 [R], normaliser and parts f32 []; old_logps, ref_logps, sampled_logps and sampling_weights
// f32 [R, T - 1] where they are kept.
class PolicyObjective final : public ReferredObjective {
 public:
  PolicyObjective(PolicyRun run, std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves);

  void complete_batches(Model& model, std::vector<NamedTensors>& micro_batches, int64_t first) override;
  void complete_evaluation(Model& model, NamedTensors& inputs, int64_t number) override;
  std::vector<std::pair<std::string, double>> take_numbers(bool training) override;
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  const BatchMeasures* measures() const override { return &measures_; }
  bool keeps_rows_apart() const override { return true; }
  bool asks_whole_weights(int64_t first, int64_t count) const override;
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;

  // Names of what take_numbers() gives.
  std::vector<std::string> number_names() const;

 private:
  // Completions of these prompts, this process's of all; the first of them is the `first`th completion of the run.
  struct Written {
    std::vector<Rollout> rows;
    double tokens = 0;
  };
  // One for each text; processes that share the work write a part each.
  std::vector<WrittenCompletion> completions_of(Model& model, const std::vector<TokenIds>& texts, uint64_t seed,
                                                int64_t first, bool training);
  Written write(Model& model, const PolicyPrompts& prompts, const std::vector<int64_t>& rows, int64_t generations,
                uint64_t seed, int64_t first, bool training, int64_t number);
  void generate(Model& model, int64_t number);
  // Log probabilities of the completions under the policy and the reference as they are, a batch at a time; and, with a
  // correction, under the weights that wrote them, where these did not say.
  void add_log_probabilities(const Model& model, std::vector<Rollout>& rows, int64_t at_once, int64_t length) const;
  void add_own_log_probabilities(const Model& model, std::span<Rollout> rows, int64_t at_once, int64_t length) const;
  void correct(std::vector<Rollout>& rows, bool training);
  SharedWork shared() const { return {run_.plan.writers, run_.plan.writer}; }
  // Lists of the processes that each have rows of their own.
  std::vector<float> gathered(const std::vector<float>& mine) const {
    return run_.plan.writers > 1 ? mine : of_all_processes(mine);
  }
  std::vector<float> asked(const Reward& reward, const RewardRequest& request) const;
  RewardTable rewards_of(const PolicyPrompts& prompts, const std::vector<int64_t>& rows,
                         const std::vector<TokenIds>& completions, LoggedCompletions& logged) const;
  NamedTensors inputs_of(const Model& model, std::span<const Rollout> rows, int64_t length, double normaliser,
                         double parts) const;
  void note(bool training, const std::string& name, double value);
  void note_lengths(const std::vector<float>& prompts, const std::vector<float>& completions,
                    const std::vector<float>& ended, bool training);

  PolicyRun run_;
  BatchMeasures measures_;
  Rollouts rollouts_;
  double tokens_seen_ = 0;
  // Sums and counts since they were last taken: of training, of evaluations.
  std::map<std::string, std::pair<double, int64_t>> numbers_[2];
};

}  // namespace transom
