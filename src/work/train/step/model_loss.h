// SPDX-License-Identifier: Apache-2.0
// The loss that a model itself gives, as Transformers' Trainer trains on it.
#pragma once

#include <optional>

#include "models/nn/losses/token_loss.h"
#include "transom/training_arguments.h"
#include "work/train/step/distillation.h"
#include "work/train/step/objective.h"

namespace transom {

class ModelLoss : public Objective {
 public:
  // With label smoothing if the arguments say so. `counts_labels`: the loss is divided by the labels as Trainer counts
  // them; false: it is the model's own mean.
  explicit ModelLoss(const TrainingArguments& arguments, bool counts_labels = true)
      : smoothing_(arguments.label_smoothing_factor), counts_labels_(counts_labels) {}

  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  Tensor count_items(const Model& model, const NamedTensors& inputs) const override;
  bool evaluates_over_processes() const override { return true; }
  bool has_loss(const NamedTensors& inputs) const override;
  bool rows_stand_alone() const override { return true; }
  // In training; evaluations keep the loss of the labels.
  void learn_from(Distillation distillation) override { distillation_ = std::move(distillation); }

  // How the loss over tokens is made, of language models; of all others nothing. Outputs that are not asked for have no
  // logits.
  void set_token_loss(const TokenLoss& how) { token_loss_ = how; }

 private:
  // For a pass; nothing: the model's usual one.
  std::optional<TokenLoss> token_loss_of(bool causal, bool training, bool reads_outputs) const;

  double smoothing_;
  bool counts_labels_;
  std::optional<Distillation> distillation_;
  TokenLoss token_loss_;
};

}  // namespace transom
