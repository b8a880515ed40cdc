// SPDX-License-Identifier: Apache-2.0
// Losses as Transformers' heads compute them; all give a tensor of shape [] in f32.
#pragma once

#include <string>

#include "transom/ops.h"

namespace transom {

// Mean over the labels that are not -100: logits [..., C], labels [...]. NaN if all are -100, as in PyTorch. With
// `items` (f32 []) the sum is divided by that.
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& items = {});

// Mean binary cross entropy with logits; labels of the logits' shape. `counted`, if given, is 1 for what takes part.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted = {});

// Of sequence classification: logits [B, C]. `problem_type` empty: regression for one label, one class of several for
// integer labels, several at once for floating ones. `items` as above, for one class of several.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type,
                           const Tensor& items = {});

// Start and end positions [B] of answers in logits [B, T]; positions outside the text are ignored.
Tensor span_loss(const Tensor& start_logits, const Tensor& end_logits, const Tensor& starts, const Tensor& ends);

}  // namespace transom
