// SPDX-License-Identifier: Apache-2.0
// SpecAugment (Park et al., 2019): in training, spans of time or of features are masked at random.
#pragma once

#include "transom/model.h"

namespace transom {

struct SpanMasking {
  double probability = 0;  // the part of the axis that is masked, where spans do not overlap
  int64_t length = 10;     // of a span
  int64_t least = 0;       // spans in a row
};

// Where spans lie, bool [rows, extent]. `lengths` i64 [rows], if given, says how far each row goes; spans stay inside.
// Draws anew in each pass. Empty if the probability is 0.
Tensor masked_spans(int64_t rows, int64_t extent, const SpanMasking& masking, const Tensor& lengths,
                    ForwardContext& context);

}  // namespace transom
