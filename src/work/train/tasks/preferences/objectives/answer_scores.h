// SPDX-License-Identifier: Apache-2.0
// What a language model says of rows of tokens [R, T], where its logits are kept and where they never are.
#pragma once

#include "transom/model.h"
#include "work/train/tasks/preferences/objectives/log_probabilities.h"
#include "work/train/tasks/preferences/reference_policy.h"

namespace transom {

class AnswerScores {
 public:
  // Outputs of a pass: logits, or token_losses and their like (TokenLoss::each). Other outputs are left alone.
  explicit AnswerScores(const NamedTensors& outputs);

  // Log probabilities of the counted tokens, f32 [R, T - 1], 0 elsewhere.
  Tensor log_probabilities(const AnswerMask& mask) const;
  // Without gradients, f32 [R, T - 1]: of the predictions of the tokens behind each but the last.
  Tensor entropies() const;
  Tensor right_predictions(const AnswerMask& mask) const;
  Tensor mean_logits() const;
  // The same of all places, [R, T].
  Tensor mean_logits_of_all() const;
  // Undefined where they are not kept.
  Tensor logits() const { return said_.find("logits"); }
  // The same without gradients, which `outputs` of a loss hold for its measures.
  void add_to(NamedTensors& outputs) const;

 private:
  Tensor before_last(const char* name) const;
  NamedTensors said_;
};

// What is asked for besides log probabilities and mean logits.
enum class AskedScores {
  kNone,
  kMeasures,  // entropies and right predictions
  kLogits,    // these too, and the logits
};
// Of a pass over rows `given` (input_ids, attention_mask); of the reference's where one is given, without gradients.
AnswerScores scores_of_answers(const Model& model, const NamedTensors& given, const ForwardContext& context,
                               AskedScores asked, const ReferencePolicy* reference = nullptr);

}  // namespace transom
