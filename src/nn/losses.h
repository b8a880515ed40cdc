// SPDX-License-Identifier: Apache-2.0
// Losses of heads as Transformers computes them; all give a tensor of shape [] in f32.
#pragma once

#include <string>

#include "transom/losses.h"

namespace transom {

// Of sequence classification: logits [B, C]. `problem_type` empty: regression for one label, one class of several for
// integer labels, several at once for floating ones. `items` as in mean_cross_entropy, for one class of several.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type,
                           const Tensor& items = {});

// Start and end positions [B] of answers in logits [B, T]; positions outside the text are ignored.
Tensor span_loss(const Tensor& start_logits, const Tensor& end_logits, const Tensor& starts, const Tensor& ends);

}  // namespace transom
