// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/model.h"

namespace transom {

struct CtcOptions {
  int64_t blank = 0;
  std::string reduction = "sum";  // or "mean": of the rows' losses, each divided by the number of its labels
  bool zero_infinity = false;     // rows whose labels need more frames than there are count nothing
};

// The CTC loss of Transformers' speech models, f32 []: logits [B, T, V], labels [B, L] in which -100 and the blank are
// padding, frames [B] that count.
Tensor ctc_loss_of_logits(const Tensor& logits, const Tensor& labels, const Tensor& frames, const CtcOptions& options,
                          const ForwardContext& context = {});

}  // namespace transom
