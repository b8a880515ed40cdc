// SPDX-License-Identifier: Apache-2.0
// What detectors with a fixed number of queries learn from: each box is matched with one query, and the others learn
// that they see nothing (Carion et al., 2020). B batch, Q queries, N boxes, C classes.
#pragma once

#include "transom/model.h"

namespace transom {

// The boxes of a batch. Boxes are (centre x, centre y, width, height) in parts of the picture.
struct BoxLabels {
  Tensor classes;  // i64 [B, N]; below 0: there is no such box
  Tensor boxes;    // [B, N, 4]
};
// class_labels and boxes of a model's inputs, checked; both are undefined where there are none. Classes in host memory
// have to be below `classes`, and extents of boxes not below 0.
BoxLabels box_labels(const NamedTensors& inputs, int64_t classes);

struct DetectionWeights {
  double class_cost = 1, bbox_cost = 5, giou_cost = 2;  // of the costs that boxes are matched by
  double bbox = 5, giou = 2;                            // of the losses; that of classes counts once
  double no_object = 0.1;                               // of the class of queries that see nothing
};

// Which query sees each box: logits [B, Q, C + 1], boxes [B, Q, 4] -> i64 [B, N], -1 for none.
Tensor matched_queries(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                       const DetectionWeights& weights, const Computing& computing);

// The same by what the class of each box costs at each query, f32 [B, Q, N], which already has its weight.
Tensor matched_by_cost(const Tensor& class_costs, const Tensor& boxes, const BoxLabels& labels,
                       const DetectionWeights& weights);

// The loss of one layer's outputs, f32 []: cross entropy of all queries, and the distances of matched boxes in corners
// and overlap, over the number of boxes.
Tensor detection_loss(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                      const DetectionWeights& weights, const ForwardContext& context);

// ---- parts, for other losses of matched queries; `matches` i64 [B, N], -1 for none

// Refuses classes in host memory that are not below `classes`.
void expect_object_classes(const Tensor& ids, int64_t classes);
// The cross entropy of all queries, over the sum of their weights, f32 []: logits [B, Q, C + 1], `classes` i64 [B, N].
Tensor class_loss_of_queries(const Tensor& logits, const Tensor& matches, const Tensor& classes, double no_object,
                             const ForwardContext& context);
Tensor counted_boxes(const BoxLabels& labels);    // bool [B, N]: which places hold a box
Tensor number_of_boxes(const BoxLabels& labels);  // f32 []: how many do, at least 1
Tensor safe_boxes(const BoxLabels& labels);       // [B, N, 4]: the whole picture, where there is no box
// What a place N says to the query that it is matched with: i64 or f32 [B, N] -> [B, Q], `none` of the others.
Tensor values_of_queries(const Tensor& matches, const Tensor& values, int64_t queries, double none);
Tensor boxes_of_matches(const Tensor& boxes, const Tensor& matches);  // [B, Q, 4] -> f32 [B, N, 4]
// The distances of matched boxes in corners and overlap, with their weights: the sum, f32 [].
Tensor distance_of_matches(const Tensor& boxes, const Tensor& matches, const BoxLabels& labels,
                           const DetectionWeights& weights);

// Boxes as corners (left, top, right, bottom): [..., 4] -> [..., 4].
Tensor box_corners(const Tensor& boxes);
// The generalised intersection over union (Rezatofighi et al., 2019) of corners that broadcast: [..., 4] -> [...].
Tensor generalized_overlap(const Tensor& corners, const Tensor& others);
// The intersection over union of the same.
Tensor overlap(const Tensor& corners, const Tensor& others);

}  // namespace transom
