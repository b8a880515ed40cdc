// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/detection_loss.h"

#include <cmath>

#include "base/error.h"
#include "graph/ir/node.h"
#include "graph/ops/rows/assignment.h"
#include "models/nn/losses/loss_divisors.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"
#include "transom/ops.h"

namespace transom {
namespace {

bool is_known_to_host(const Tensor& tensor) {
  return tensor.node()->computed(tensor.output()) && (is_in_host_memory(tensor) || buffer_of(tensor)->host_pointer());
}

void expect_box_values(const BoxLabels& labels) {
  if (!is_known_to_host(labels.classes) || !is_known_to_host(labels.boxes)) return;
  const std::vector<int64_t> ids = labels.classes.to_vector<int64_t>();
  const std::vector<float> boxes = labels.boxes.to_vector<float>();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) continue;
    for (size_t k = 4 * i; k < 4 * i + 4; ++k)
      if (!std::isfinite(boxes[k]) || (k % 4 > 1 && boxes[k] < 0))
        fail("boxes: box {}: expected (centre x, centre y, width, height) with extents of 0 or more, found {}", i,
             boxes[k]);
  }
}

Tensor part(const Tensor& boxes, int64_t begin, int64_t end) { return slice(boxes, -1, begin, end); }
Tensor side(const Tensor& boxes, int64_t axis) { return squeeze(part(boxes, axis, axis + 1), -1); }
Tensor area(const Tensor& corners) {
  return (side(corners, 2) - side(corners, 0)) * (side(corners, 3) - side(corners, 1));
}
Tensor product_of_sides(const Tensor& extents) { return side(extents, 0) * side(extents, 1); }

// What two corners share, and what they cover together.
struct Overlap {
  Tensor shared, together;
  Overlap(const Tensor& corners, const Tensor& others) {
    shared = product_of_sides(
        relu(minimum(part(corners, 2, 4), part(others, 2, 4)) - maximum(part(corners, 0, 2), part(others, 0, 2))));
    together = area(corners) + area(others) - shared;
  }
};

}  // namespace

void expect_object_classes(const Tensor& ids, int64_t classes) {
  if (!is_known_to_host(ids)) return;
  for (const int64_t id : ids.to_vector<int64_t>())
    if (id >= classes) fail("class_labels: {} is no class: expected numbers in [0, {}), or -100 for none", id, classes);
}

BoxLabels box_labels(const NamedTensors& inputs, int64_t classes) {
  const Tensor ids = inputs.find("class_labels"), boxes = inputs.find("boxes");
  if (!ids.defined() && !boxes.defined()) return {};
  if (!ids.defined() || !boxes.defined()) fail("expected class_labels and boxes, found one of them");
  const int64_t B = inputs.at("pixel_values").dim(0);
  if (ids.rank() != 2 || ids.dim(0) != B || boxes.shape() != Shape{B, ids.dim(1), 4})
    fail("class_labels and boxes: expected [{}, boxes] and [{}, boxes, 4], found {} and {}", B, B,
         to_string(ids.shape()), to_string(boxes.shape()));
  const BoxLabels labels{cast(ids, DType::kInt64), boxes};
  expect_object_classes(labels.classes, classes);
  expect_box_values(labels);
  return labels;
}

Tensor box_corners(const Tensor& boxes) {
  const Tensor centres = part(boxes, 0, 2), halves = part(boxes, 2, 4) * 0.5;
  return concatenate({centres - halves, centres + halves}, -1);
}

Tensor overlap(const Tensor& corners, const Tensor& others) {
  const Overlap both(corners, others);
  return both.shared / both.together;
}

Tensor generalized_overlap(const Tensor& corners, const Tensor& others) {
  const Overlap both(corners, others);
  const Tensor hull = product_of_sides(
      relu(maximum(part(corners, 2, 4), part(others, 2, 4)) - minimum(part(corners, 0, 2), part(others, 0, 2))));
  return both.shared / both.together - (hull - both.together) / hull;
}

Tensor counted_boxes(const BoxLabels& labels) {
  return greater_equal(labels.classes, full(labels.classes.shape(), 0, DType::kInt64));
}

Tensor number_of_boxes(const BoxLabels& labels) {
  return maximum(sum(cast(counted_boxes(labels), DType::kFloat32)), constant(1));
}

Tensor safe_boxes(const BoxLabels& labels) {
  const Shape shape = labels.boxes.shape();
  const Tensor whole = concatenate({full({shape[0], shape[1], 2}, 0.5), full({shape[0], shape[1], 2}, 1)}, 2);
  return select(broadcast_to(unsqueeze(counted_boxes(labels), 2), shape), cast(labels.boxes, DType::kFloat32), whole);
}

Tensor values_of_queries(const Tensor& matches, const Tensor& values, int64_t queries, double none) {
  const Shape all{matches.dim(0), matches.dim(1), queries};
  const Tensor hits = equal(broadcast_to(unsqueeze(matches, 2), all), iota(all, 2));
  const Tensor above = broadcast_to(unsqueeze(values - none, 2), all);
  return reduce_sum(select(hits, above, full(all, 0, values.dtype())), {1}) + none;
}

Tensor boxes_of_matches(const Tensor& boxes, const Tensor& matches) {
  const Shape shape{matches.dim(0), matches.dim(1), 4};
  const Tensor none = full(matches.shape(), 0, DType::kInt64);
  const Tensor places = select(greater_equal(matches, none), matches, none);
  return take_along_axis(cast(boxes, DType::kFloat32), broadcast_to(unsqueeze(places, 2), shape), 1);
}

Tensor distance_of_matches(const Tensor& boxes, const Tensor& matches, const BoxLabels& labels,
                           const DetectionWeights& weights) {
  const Tensor found = boxes_of_matches(boxes, matches), wanted = safe_boxes(labels);
  const Tensor counts = cast(greater_equal(matches, full(matches.shape(), 0, DType::kInt64)), DType::kFloat32);
  const Tensor distance = sum(reduce_sum(abs(found - wanted), {2}) * counts);
  const Tensor apart = sum((1.0 - generalized_overlap(box_corners(found), box_corners(wanted))) * counts);
  return distance * weights.bbox + apart * weights.giou;
}

Tensor matched_by_cost(const Tensor& class_costs, const Tensor& boxes, const BoxLabels& labels,
                       const DetectionWeights& weights) {
  if (labels.classes.dim(1) == 0) return full({class_costs.dim(0), 0}, 0, DType::kInt64);
  const Tensor found = unsqueeze(cast(boxes, DType::kFloat32).detach(), 2), wanted = unsqueeze(safe_boxes(labels), 1);
  const Tensor distance = reduce_sum(abs(found - wanted), {3});
  const Tensor apart = generalized_overlap(box_corners(found), box_corners(wanted));
  return linear_sum_assignment(distance * weights.bbox_cost + class_costs - apart * weights.giou_cost,
                               counted_boxes(labels));
}

Tensor matched_queries(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                       const DetectionWeights& weights, const Computing& computing) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), N = labels.classes.dim(1);
  const Tensor chances = softmax(cast(logits, DType::kFloat32).detach(), computing);
  const Tensor classes = select(counted_boxes(labels), labels.classes, full({B, N}, 0, DType::kInt64));
  const Tensor of_class = -take_along_axis(chances, broadcast_to(unsqueeze(classes, 1), {B, Q, N}), 2);
  return matched_by_cost(of_class * weights.class_cost, boxes, labels, weights);
}

Tensor class_loss_of_queries(const Tensor& logits, const Tensor& matches, const Tensor& classes, double no_object,
                             const ForwardContext& context) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), C = logits.dim(2) - 1;
  const Tensor targets = reshape(values_of_queries(matches, classes, Q, static_cast<double>(C)), {B * Q});
  const Tensor none = full({B * Q}, static_cast<double>(C), DType::kInt64);
  const Tensor weight = select(equal(targets, none), full({B * Q}, no_object), full({B * Q}, 1));
  const Tensor losses =
      cross_entropy(reshape(cast(logits, DType::kFloat32), {B * Q, C + 1}), targets, -100, context.computing);
  return mean_of(sum(losses * weight), sum(weight), context);
}

Tensor detection_loss(const Tensor& logits, const Tensor& boxes, const BoxLabels& labels,
                      const DetectionWeights& weights, const ForwardContext& context) {
  const Tensor matches = matched_queries(logits, boxes, labels, weights, context.computing);
  const Tensor of_classes = class_loss_of_queries(logits, matches, labels.classes, weights.no_object, context);
  if (labels.classes.dim(1) == 0) return of_classes;
  return of_classes + mean_of(distance_of_matches(boxes, matches, labels, weights), number_of_boxes(labels), context);
}

}  // namespace transom
