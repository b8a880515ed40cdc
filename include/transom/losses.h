// SPDX-License-Identifier: Apache-2.0
// Losses; all give a tensor of shape [] in f32.
#pragma once

#include "transom/ops.h"

namespace transom {

// Mean over all elements of the squared difference; `x` and `target` have one shape.
Tensor mean_squared_error(const Tensor& x, const Tensor& target);

// Mean over the labels that are not -100: logits [..., C], labels [...]. NaN if all are -100, as in PyTorch. With
// `items` (f32 []) the sum is divided by that. Throws, with the row, for labels in host memory that are no class; of
// computed ones, and of those of a traced function, such a label makes the loss NaN.
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& items = {});

// Mean binary cross entropy with logits; labels of the logits' shape. `counted`, if given, is 1 for what takes part.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted = {});

}  // namespace transom
