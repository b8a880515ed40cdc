// SPDX-License-Identifier: Apache-2.0
// What TRL logs of a language model besides its loss: the entropy of its predictions and how many of them are right.
#pragma once

#include "work/train/log/batch_measures.h"
#include "work/train/step/model_loss.h"

namespace transom {

// Of each row of logits [..., V], in nats: f32 [...].
Tensor entropies(const Tensor& logits);
// entropy and mean_token_accuracy, over the tokens that have labels.
BatchMeasures token_measures();

// The loss of a language model as SFTTrainer has it: its evaluations divide by the labels that are predicted, and not
// by all, of which Trainer counts the first of each row too.
class MeasuredModelLoss final : public ModelLoss {
 public:
  MeasuredModelLoss(const TrainingArguments& arguments, TokenLoss::Kind kind) : ModelLoss(arguments) {
    set_token_loss({.kind = kind, .keeps_logits = false, .measures = true});
  }
  const BatchMeasures* measures() const override { return &measures_; }
  bool evaluates_over_processes() const override { return false; }

 private:
  BatchMeasures measures_ = token_measures();
};

}  // namespace transom
