// SPDX-License-Identifier: Apache-2.0
// The loss of a language model over its tokens: which it is, what is told of the predictions, and whether the logits of
// a whole batch are ever held. T tokens, D hidden, V vocabulary.
#pragma once

#include "transom/model.h"

namespace transom {

struct TokenLoss {
  enum class Kind {
    kLogLikelihood,  // the negative log-likelihood of each label
    kDynamic,  // that times the probability of the label, taken as a constant (Wu et al., "On the generalization of
               // SFT", 2025)
  };
  Kind kind = Kind::kLogLikelihood;
  // Outputs have the logits. Else, where these are large, the loss is computed for some rows at a time, forward and
  // gradient together.
  bool keeps_logits = true;
  // Outputs have token_measures, f32 [3]: over the tokens with labels the sum of the entropies of the predictions
  // (nats), how many are right, and how many there are.
  bool measures = false;
  // There is no loss: whoever asks makes one of the negative log-likelihoods of each token. Outputs have, f32 as the
  // tokens, token_losses (0 where there is no label) and without gradients token_means (of the logits) and, with
  // `measures`, token_entropies and token_right (1 where the largest logit is the label's); or, where these are few or
  // are no product of two plain matrices, logits alone.
  bool each = false;
};

// The linear layer over the vocabulary.
struct LogitsHead {
  const Parameter& weight;
  const Parameter* bias = nullptr;  // null: none
  double multiplier = 1, soft_cap = 0;
  // hidden [..., D] -> logits [..., V]
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const;
};

struct TokenLosses {
  Tensor loss;      // f32 []
  Tensor logits;    // undefined where they are not kept
  Tensor measures;  // f32 [3], undefined where nobody asks
  // Where each token is asked for.
  struct Each {
    Tensor losses, entropies, right, means;
  } each;
};
// hidden [..., T, D], and what each token is to predict: targets i64 [..., T], -100 for nothing. The loss is made as
// context.token_loss says; its mean divides as mean_cross_entropy's does.
TokenLosses token_losses(const LogitsHead& head, const Tensor& hidden, const Tensor& targets, ForwardContext& context);

}  // namespace transom
