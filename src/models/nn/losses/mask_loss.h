// SPDX-License-Identifier: Apache-2.0
// What segmenters with a fixed number of queries learn from: each object is matched with one query, and masks are
// compared at points that are drawn, most of them where the model is not sure (Cheng et al., Mask2Former, 2022;
// Kirillov et al., PointRend, 2020). B batch, Q queries, N objects, C classes, P points.
#pragma once

#include <vector>

#include "models/nn/losses/detection_loss.h"

namespace transom {

// The objects of a batch.
struct MaskLabels {
  Tensor classes;  // i64 [B, N]; below 0: there is no such object
  Tensor masks;    // [B, N, H, W]: 1 where the object is
};
// class_labels and mask_labels of a model's inputs, checked; both are undefined where there are none. Classes in host
// memory have to be below `classes`.
MaskLabels mask_labels(const NamedTensors& inputs, int64_t classes);

struct MaskWeights {
  double classes = 2, mask = 5, dice = 5;  // of the costs that objects are matched by, and of the losses
  double no_object = 0.1;                  // of the class of queries that see nothing
  int64_t points = 12544;                  // at which masks are compared
  int64_t candidates = 37632;              // of which the least sure ones are taken
  int64_t unsure = 9408;                   // how many of them
};

// Points as (x, y) in parts of the picture, f32.
struct MaskPoints {
  Tensor matching;    // [B, P, 2]: for the costs
  Tensor candidates;  // [B, N, candidates, 2]; those of a picture are for its objects in the order of their queries
  Tensor others;      // [B, N, P - unsure, 2]: beside the least sure candidates
};
// The points of each of so many predictions: the inputs matching_points [B, L, P, 2], candidate_points [B, L, N,
// candidates, 2] and other_points [B, L, N, P - unsure, 2], where they are given. Otherwise they are drawn: in training
// by the key of the pass, else always the same.
std::vector<MaskPoints> mask_points(const NamedTensors& inputs, int64_t predictions, const MaskLabels& labels,
                                    const MaskWeights& weights, ForwardContext& context);
// The names of these inputs.
const std::vector<std::string>& mask_point_names();

// The loss of one prediction, f32 []: logits [B, Q, C + 1] and masks [B, Q, h, w]. Cross entropy of all queries, and of
// those that are matched the binary cross entropy and the Dice loss (Milletari et al., 2016) at the points, over the
// number of objects.
Tensor mask_loss(const Tensor& logits, const Tensor& masks, const MaskLabels& labels, const MaskWeights& weights,
                 const MaskPoints& points, const ForwardContext& context);

// ---- parts

// What maps [R, h, w] hold at points f32 [R, P, 2], bilinearly and 0 beyond their edges: f32 [R, P].
Tensor at_points(const Tensor& maps, const Tensor& points);
// Which query sees each object: i64 [B, N], -1 for none.
Tensor matched_masks(const Tensor& logits, const Tensor& masks, const MaskLabels& labels, const MaskWeights& weights,
                     const Tensor& points, const Computing& computing);

}  // namespace transom
