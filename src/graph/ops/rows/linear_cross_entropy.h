// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transom/ops.h"

namespace transom {

struct LinearCrossEntropyOptions {
  int64_t rows = 256;     // logits of so many rows are held at once
  double multiplier = 1;  // of the logits
  double soft_cap = 0;    // logits become cap tanh(logits / cap); 0: unchanged
  // A row's loss is multiplied by the probability of its label, through which no gradient goes.
  bool dynamic = false;
  bool measures = false;         // entropy and right are computed
  bool gradient = false;         // the gradient of `total` is computed beside it
  bool weight_gradient = false;  // that for weight and bias too
  // Gradients go through `losses` too, each of which may count differently: the logits of some rows at a time are then
  // computed again.
  bool through_losses = false;
};
struct LinearCrossEntropy {
  Tensor total;    // f32 []: the sum of `losses`
  Tensor losses;   // f32 [N]: 0 where the label is ignored
  Tensor entropy;  // f32 [N], in nats, of every row; undefined without measures
  Tensor right;    // f32 [N]: 1 where the largest logit is the label's
};
// cross_entropy of the logits linear(x, weight, bias), of which no more than `rows` rows are ever held: x [N, D],
// weight [V, D], bias [V] or undefined, labels i64 [N] (-100: ignored). `x` and `weight` have the type that products
// are computed in. With `gradient` forward and backward go over the logits together, as fused kernels have it (Hsu et
// al., "Liger kernel", 2024). Other gradients of losses compute the logits again, as many rows at a time; those of the
// entropies hold all logits.
LinearCrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                                        const LinearCrossEntropyOptions& options, const Computing& computing);

}  // namespace transom
