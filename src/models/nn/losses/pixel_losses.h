// SPDX-License-Identifier: Apache-2.0
// What models learn from that tell the class of each pixel. B batch, C classes.
#pragma once

#include "transom/model.h"

namespace transom {

// logits [B, C, h, w], brought bilinearly to the extents of labels i64 [B, H, W]; f32 []. Labels that are ignore_index
// do not count. One class: binary cross entropy over all pixels, of which those that do not count have no loss.
Tensor pixel_loss(const Tensor& logits, const Tensor& labels, int64_t ignore_index, const ForwardContext& context);

}  // namespace transom
