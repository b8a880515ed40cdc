// SPDX-License-Identifier: Apache-2.0
// What detectors learn from whose classes each have a chance of their own: a matched query shall be as sure of its
// class as its box covers the labelled one (Zhang et al., VarifocalNet, 2021). B batch, Q queries, N boxes, C classes.
#pragma once

#include "models/nn/losses/detection_loss.h"

namespace transom {

struct VarifocalWeights {
  DetectionWeights boxes;  // `no_object` is not used
  double varifocal = 1;    // of the loss of classes
  double alpha = 0.75, gamma = 2;
  // Of the costs of classes that boxes are matched by: those of a focal loss (Lin et al., 2017), or the chances.
  bool focal_costs = true;
  double cost_alpha = 0.25, cost_gamma = 2;
};

// Which query sees each box: logits [B, Q, C], boxes [B, Q, 4] -> i64 [B, N], -1 for none.
Tensor varifocal_matches(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                         const VarifocalWeights& weights, const Computing& computing);

// The loss of queries with these matches, summed, f32 []. `counted` f32 [B, Q] or undefined: which queries have a loss
// of their classes.
Tensor varifocal_loss(const Tensor& logits, const Tensor& boxes, const Tensor& matches, const BoxLabels& labels,
                      const VarifocalWeights& weights, const Tensor& counted = {});

}  // namespace transom
