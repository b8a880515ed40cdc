// SPDX-License-Identifier: Apache-2.0
// Masked language modelling labels few of a sequence's tokens, and its loss ignores the others: a head over the
// vocabulary need not see them. BERT's own programs call the bound max_predictions_per_seq; devices whose tiles hold no
// logits of all positions, always have one. Here it is Computing::max_predictions.
#pragma once

#include "transom/ops.h"

namespace transom {

struct LabelledRows {
  Tensor hidden, labels;
};
// hidden [B, T, D] and labels [B, T] at the first `most` labelled positions of each sequence: [B, most, D] and
// [B, most], -100 where a sequence has fewer. One that has more gets labels that are no class, so that the loss is NaN
// and not one of some of them. Both as they are where `most` is 0 or no less than T.
LabelledRows labelled_rows(const Tensor& hidden, const Tensor& labels, int64_t most);

}  // namespace transom
