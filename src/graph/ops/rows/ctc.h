// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

// Connectionist temporal classification (Graves et al., 2006): -log of the sum, over all ways of spreading the targets
// over the frames with blanks between, of their probabilities. log_probabilities [B, T, V] of each frame, targets i64
// [B, L], frames i64 [B] that count (1 .. T), lengths i64 [B] of the targets (0 .. L); -> [B]. Infinite where the
// targets need more frames than there are; no gradient comes from there.
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& frames, const Tensor& lengths,
                int64_t blank, const Computing& computing TRANSOM_DEFAULT({}));

}  // namespace transom
