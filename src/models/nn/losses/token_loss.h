// SPDX-License-Identifier: Apache-2.0
// How a language model's loss over tokens is made: which loss, what is told of the predictions, and whether the logits
// of a whole batch are ever held.
#pragma once

namespace transom {

struct TokenLoss {
  enum class Kind {
    kLogLikelihood,  // the negative log-likelihood of each label
    kDynamic,  // the same times the probability that the label had: Wu et al., "On the generalization of SFT", 2025
  };
  Kind kind = Kind::kLogLikelihood;
  // Logits are among the outputs. Else the loss is computed for some rows at a time, forward and gradient together,
  // where all logits were large.
  bool keeps_logits = true;
  // Outputs have token_measures, f32 [3]: over the labels that are predicted the sum of the entropies of the
  // predictions (nats), how many are right, and how many there are.
  bool measures = false;
};

}  // namespace transom
