// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/pixel_losses.h"

#include "base/error.h"
#include "models/nn/losses/losses.h"
#include "models/nn/vision/upsampling.h"
#include "transom/ops.h"

namespace transom {

Tensor pixel_loss(const Tensor& logits, const Tensor& labels, int64_t ignore_index, const ForwardContext& context) {
  if (labels.rank() != 3 || labels.dim(0) != logits.dim(0))
    fail("labels: expected [{}, height, width], found {}", logits.dim(0), to_string(labels.shape()));
  const Tensor large =
      resize_bilinear(cast(logits, DType::kFloat32), labels.dim(1), labels.dim(2), false, context.computing);
  const Tensor ids = cast(labels, DType::kInt64);
  const Tensor ignored = equal(ids, full(ids.shape(), static_cast<double>(ignore_index), DType::kInt64));
  if (logits.dim(1) > 1)
    return mean_cross_entropy(permute(large, {0, 2, 3, 1}),
                              select(ignored, full(ids.shape(), -100, DType::kInt64), ids), context);
  const Tensor negative = less(ids, full(ids.shape(), 0, DType::kInt64));
  const Tensor counts = cast(logical_not(logical_or(ignored, negative)), DType::kFloat32);
  const Tensor x = squeeze(large, 1), target = cast(ids, DType::kFloat32);
  const Tensor losses = relu(x) - x * target + log1p(exp(-abs(x)));  // log(1 + exp(x)) - x target, without overflow
  return mean_of_all(losses * counts, context);
}

}  // namespace transom
