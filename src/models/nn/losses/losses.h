// SPDX-License-Identifier: Apache-2.0
// Losses of heads as Transformers computes them; all give a tensor of shape [] in f32.
#pragma once

#include <string>

#include "models/nn/losses/loss_divisors.h"
#include "transom/losses.h"

namespace transom {

// As the public functions; the means divide by what `context` says: num_items_in_batch, or the counts of a larger batch
// of which this one is a part.
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const ForwardContext& context);
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted,
                            const ForwardContext& context);

// Of sequence classification: logits [B, C]. `problem_type` empty: regression for one label, one class of several for
// integer labels, several at once for floating ones.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type,
                           const ForwardContext& context = {});

// Start and end positions [B] of answers in logits [B, T]; positions outside the text are ignored.
Tensor span_loss(const Tensor& start_logits, const Tensor& end_logits, const Tensor& starts, const Tensor& ends,
                 const ForwardContext& context = {});

}  // namespace transom
