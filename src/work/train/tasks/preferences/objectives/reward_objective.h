// SPDX-License-Identifier: Apache-2.0
// Reward models (Ouyang et al., "Training language models to follow instructions with human feedback", 2022) as
// RewardTrainer trains and logs them.
#pragma once

#include <optional>

#include "work/train/step/objective.h"

namespace transom {

// Inputs: input_ids, attention_mask [2 N, T], chosen and rejected of a pair behind each other; margin f32 [N] where
// rows have one.
class RewardObjective final : public Objective {
 public:
  // `centring`: the weight of the squared sum of a pair's rewards (Eisenstein et al., "Helping or herding?", 2023).
  RewardObjective(std::optional<double> centring, bool drops_out);
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  const BatchMeasures* measures() const override { return &measures_; }
  void expect(bool sharded, bool staged) const override;

 private:
  std::optional<double> centring_;
  bool drops_out_;
  BatchMeasures measures_;
};

}  // namespace transom
