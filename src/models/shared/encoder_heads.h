// SPDX-License-Identifier: Apache-2.0
// What the heads of text encoders share: a head takes the hidden states of the body and gives named outputs.
#pragma once

#include <vector>

#include "models/nn/losses/labelled_positions.h"
#include "models/nn/losses/losses.h"
#include "transom/model.h"

namespace transom {

// Puts the loss first, as Transformers orders its outputs.
NamedTensors with_loss(const Tensor& loss, NamedTensors outputs);

// One label a row: logits [B, C].
NamedTensors sequence_classification_outputs(const Tensor& logits, const NamedTensors& inputs,
                                             const std::string& problem_type, const ForwardContext& context);
// One label a token: logits [B, T, C]; also masked language modelling.
NamedTensors token_outputs(const Tensor& logits, const NamedTensors& inputs, const ForwardContext& context);
// Of masked language modelling: hidden [B, T, D] through `head` to logits [B, T, V], and the loss of the labelled ones.
// In training with Computing::max_predictions the logits are those of the labelled positions alone.
template <typename PredictionHead>
NamedTensors masked_outputs(const PredictionHead& head, const Tensor& hidden, const NamedTensors& inputs,
                            ForwardContext& context) {
  const Tensor labels = inputs.find("labels");
  const int64_t most = context.computing.max_predictions;
  if (!context.training || !labels.defined() || most == 0) return token_outputs(head(hidden, context), inputs, context);
  const LabelledRows rows = labelled_rows(hidden, labels, most);
  const Tensor logits = head(rows.hidden, context);
  return with_loss(mean_cross_entropy(logits, rows.labels, context), {{"logits", logits}});
}
// hidden [B, T, 2] -> start and end logits [B, T].
NamedTensors span_outputs(const Tensor& logits, const NamedTensors& inputs, const ForwardContext& context);
// scores [B choices, 1] -> logits [B, choices].
NamedTensors choice_outputs(const Tensor& scores, int64_t choices, const NamedTensors& inputs,
                            const ForwardContext& context);
// The number of choices in the inputs of multiple choice, [B, choices, T].
int64_t choices_of(const NamedTensors& inputs);
// The inputs of multiple choice, [B, choices, T], as [B choices, T].
NamedTensors flattened_choices(const NamedTensors& inputs);

// The sum of hidden states [B, T, D], weighted by the softmax of weights [states].
Tensor weighted_sum(const std::vector<Tensor>& hidden_states, const Tensor& weights, const Computing& computing);

// The position of each token counted from padding + 1, padding tokens staying at `padding`: RoBERTa's positions.
Tensor positions_after_padding(const Tensor& input_ids, int64_t padding);

}  // namespace transom
