// SPDX-License-Identifier: Apache-2.0
// Kahneman-Tversky optimisation (Ethayarajh et al., "KTO", 2024) as KTOTrainer computes and logs it.
#pragma once

#include "work/train/tasks/preferences/objectives/dpo_objective.h"

namespace transom {

struct KtoOptions {
  double beta = 0.1, desirable_weight = 1, undesirable_weight = 1;
  bool estimates_divergence = true;  // false: apo_zero_unpaired
};

// Inputs: input_ids, attention_mask, completion_mask [N, T], label f32 [N]; the same three with KL_ before their names
// [N, S], prompts with answers of others; ref_logps and ref_KL_logps f32 [N] where there is no reference.
class KtoObjective final : public ReferredObjective {
 public:
  KtoObjective(KtoOptions options, std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves,
               bool drops_out);
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  const BatchMeasures* measures() const override { return &measures_; }

 private:
  Tensor divergence(const LossPass& pass, const NamedTensors& inputs) const;

  KtoOptions options_;
  BatchMeasures measures_;
};

}  // namespace transom
