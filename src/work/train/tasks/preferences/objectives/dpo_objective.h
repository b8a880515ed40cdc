// SPDX-License-Identifier: Apache-2.0
// Direct preference optimisation as DPOTrainer computes and logs it.
#pragma once

#include <memory>

#include "work/train/step/objective.h"
#include "work/train/tasks/preferences/objectives/answer_scores.h"
#include "work/train/tasks/preferences/objectives/dpo_losses.h"
#include "work/train/tasks/preferences/reference_policy.h"

namespace transom {

// How a reference follows the policy (TR-DPO: Gorbatovski et al., 2024).
struct ReferenceMoves {
  double alpha = 0.6;
  int64_t every = 512;  // updates
};

// What losses with a reference share: it may move, and a resumed run needs where it is.
class ReferredObjective : public Objective {
 public:
  // Where `reference` is null, batches hold what it says.
  ReferredObjective(std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves, bool drops_out);

  void updated(const Model& model, int64_t steps) override;
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;
  void expect(bool sharded, bool staged) const override;

 protected:
  const ReferencePolicy* reference() const { return reference_.get(); }
  // The context of the policy's passes: without dropout unless it is asked for.
  void prepare(ForwardContext& context) const;

 private:
  std::shared_ptr<ReferencePolicy> reference_;
  std::optional<ReferenceMoves> moves_;
  bool drops_out_;
};

// Inputs: input_ids, attention_mask, completion_mask [2 N, T], chosen and rejected of a pair behind each other; and
// ref_logps f32 [2 N] where there is no reference.
class DpoObjective final : public ReferredObjective {
 public:
  DpoObjective(DpoOptions options, std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves,
               bool drops_out);
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  const BatchMeasures* measures() const override { return &measures_; }

 private:
  DpoOptions options_;
  BatchMeasures measures_;
};

// Log probabilities of the answers in a batch as DPO counts them, f32 [2 N].
Tensor dpo_log_probabilities(const AnswerScores& scores, const AnswerMask& mask, std::optional<double> length_alpha);

// The inputs that a language model takes of a batch; `prefix` before their names in it.
NamedTensors policy_inputs(const NamedTensors& inputs, const std::string& prefix = "");

}  // namespace transom
