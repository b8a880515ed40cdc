// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/varifocal_loss.h"

#include "transom/ops.h"

namespace transom {
namespace {

Tensor power(const Tensor& x, double exponent) {
  return pow(x, broadcast_to(constant(exponent, x.dtype()), x.shape()));
}

// -log x, finite.
Tensor surprise(const Tensor& x) { return -log(x + 1e-8); }

}  // namespace

Tensor varifocal_matches(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                         const VarifocalWeights& weights, const Computing& computing) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), N = labels.classes.dim(1);
  const Tensor x = cast(logits, DType::kFloat32).detach();
  const Tensor ids = select(counted_boxes(labels), labels.classes, full({B, N}, 0, DType::kInt64));
  const Tensor chances = take_along_axis(weights.focal_costs ? sigmoid(x) : softmax(x, computing),
                                         broadcast_to(unsqueeze(ids, 1), {B, Q, N}), 2);
  Tensor costs = -chances;
  if (weights.focal_costs) {
    const Tensor others = 1.0 - chances;
    costs = weights.cost_alpha * (power(others, weights.cost_gamma) * surprise(chances)) -
            (1 - weights.cost_alpha) * (power(chances, weights.cost_gamma) * surprise(others));
  }
  return matched_by_cost(costs * weights.boxes.class_cost, boxes, labels, weights.boxes);
}

Tensor varifocal_loss(const Tensor& logits, const Tensor& boxes, const Tensor& matches, const BoxLabels& labels,
                      const VarifocalWeights& weights, const Tensor& counted) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), C = logits.dim(2);
  const Tensor x = cast(logits, DType::kFloat32);
  const Tensor covered =
      overlap(box_corners(boxes_of_matches(boxes.detach(), matches)), box_corners(safe_boxes(labels)));
  const Tensor ids = values_of_queries(matches, labels.classes, Q, static_cast<double>(C));
  const Tensor sure = values_of_queries(matches, covered, Q, 0);
  const Tensor is_class = equal(broadcast_to(unsqueeze(ids, 2), {B, Q, C}), iota({B, Q, C}, 2));
  const Tensor wanted = select(is_class, broadcast_to(unsqueeze(sure, 2), {B, Q, C}), full({B, Q, C}, 0));
  const Tensor weight = select(is_class, wanted, weights.alpha * power(sigmoid(x).detach(), weights.gamma));
  // The binary cross entropy, log(1 + exp(x)) - x wanted without overflow.
  Tensor losses = reduce_sum((relu(x) - x * wanted + log1p(exp(-abs(x)))) * weight, {2});
  if (counted.defined()) losses = losses * counted;
  return sum(losses) * weights.varifocal + distance_of_matches(boxes, matches, labels, weights.boxes);
}

}  // namespace transom
