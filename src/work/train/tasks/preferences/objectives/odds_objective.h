// SPDX-License-Identifier: Apache-2.0
// Preferences without a reference, as TRL's experimental CPOTrainer and ORPOTrainer compute and log them: CPO (Xu et
// al., 2024) with SimPO (Meng et al., 2024) and AlphaPO (Gupta et al., 2025), and ORPO (Hong et al., 2024).
#pragma once

#include "transom/training_arguments.h"
#include "work/train/step/objective.h"

namespace transom {

struct OddsOptions {
  bool odds_ratio = false;            // ORPO
  std::string loss_type = "sigmoid";  // of CPO: sigmoid, hinge, ipo, simpo
  double beta = 0.1, label_smoothing = 0, nll_weight = 1, gamma = 0.5, alpha = 0;
  bool drops_out = false;
};

OddsOptions cpo_options(const ScriptArguments& script);
OddsOptions orpo_options(const ScriptArguments& script);

// Inputs as of DpoObjective.
class OddsObjective final : public Objective {
 public:
  explicit OddsObjective(OddsOptions options);
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  const BatchMeasures* measures() const override { return &measures_; }
  void expect(bool sharded, bool staged) const override;
  // TRL's logits/chosen and logits/rejected are means over all places.
  bool reads_padding() const override { return true; }

 private:
  OddsOptions options_;
  BatchMeasures measures_;
};

}  // namespace transom
