// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/mask_loss.h"

#include "base/error.h"
#include "graph/ops/attention/deformable_attention.h"
#include "graph/ops/rows/assignment.h"
#include "models/nn/layers.h"
#include "models/nn/losses/loss_divisors.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char *kMatchingPoints = "matching_points", *kCandidatePoints = "candidate_points",
                     *kOtherPoints = "other_points";

void expect_mask_shape(const Tensor& found, const char* name, const Shape& expected) {
  if (found.shape() != expected) fail("{}: expected {}, found {}", name, to_string(expected), to_string(found.shape()));
}

// Prediction `number` of points of all of them, [B, L, ...].
Tensor points_of_prediction(const Tensor& all, int64_t number) {
  return squeeze(slice(cast(all, DType::kFloat32), 1, number, number + 1), 1);
}

// The same points for several maps of each row: maps [B, C, h, w], points [B, P, 2] -> [B, P, C].
Tensor at_shared_points(const Tensor& maps, const Tensor& points) {
  const int64_t B = maps.dim(0), C = maps.dim(1), h = maps.dim(2), w = maps.dim(3), P = points.dim(1);
  const Tensor values = reshape(permute(flatten(cast(maps, DType::kFloat32), 2, 3), {0, 2, 1}), {B, h * w, 1, C});
  const Tensor found = deformable_attention(values, reshape(points, {B, P, 1, 1, 2}), full({B, P, 1, 1}, 1),
                                            {.heights = {h}, .widths = {w}});
  return reshape(found, {B, P, C});
}

// How many of the matched queries of a picture come before that of each object: i64 [B, N].
Tensor places_among_matches(const Tensor& matches) {
  const int64_t B = matches.dim(0), N = matches.dim(1);
  const Shape pairs{B, N, N};
  const Tensor own = broadcast_to(unsqueeze(matches, 2), pairs), other = broadcast_to(unsqueeze(matches, 1), pairs);
  const Tensor counts = logical_and(less(other, own), greater_equal(other, full(pairs, 0, DType::kInt64)));
  return reduce_sum(cast(counts, DType::kInt64), {2});
}

// Points [B, N, K, 2], which lie in the order of queries, in that of the objects.
Tensor in_order_of_objects(const Tensor& points, const Tensor& places) {
  return take_along_axis(points, broadcast_to(unsqueeze(unsqueeze(places, 2), 3), points.shape()), 1);
}

}  // namespace

MaskLabels mask_labels(const NamedTensors& inputs, int64_t classes) {
  const Tensor ids = inputs.find("class_labels"), masks = inputs.find("mask_labels");
  if (!ids.defined() && !masks.defined()) return {};
  if (!ids.defined() || !masks.defined()) fail("expected class_labels and mask_labels, found one of them");
  const int64_t B = inputs.at("pixel_values").dim(0);
  if (ids.rank() != 2 || ids.dim(0) != B || masks.rank() != 4 || masks.dim(0) != B || masks.dim(1) != ids.dim(1))
    fail("class_labels and mask_labels: expected [{}, objects] and [{}, objects, height, width], found {} and {}", B, B,
         to_string(ids.shape()), to_string(masks.shape()));
  const MaskLabels labels{cast(ids, DType::kInt64), masks};
  expect_object_classes(labels.classes, classes);
  return labels;
}

const std::vector<std::string>& mask_point_names() {
  static const std::vector<std::string> names = {kMatchingPoints, kCandidatePoints, kOtherPoints};
  return names;
}

std::vector<MaskPoints> mask_points(const NamedTensors& inputs, int64_t predictions, const MaskLabels& labels,
                                    const MaskWeights& weights, ForwardContext& context) {
  const int64_t B = labels.classes.dim(0), N = labels.classes.dim(1), L = predictions, P = weights.points;
  const Tensor matching = inputs.find(kMatchingPoints), candidates = inputs.find(kCandidatePoints),
               others = inputs.find(kOtherPoints);
  const bool given = matching.defined();
  if (given != candidates.defined() || given != others.defined())
    fail("expected {}, {} and {}, or none of them", kMatchingPoints, kCandidatePoints, kOtherPoints);
  std::vector<MaskPoints> points;
  if (given) {
    expect_mask_shape(matching, kMatchingPoints, {B, L, P, 2});
    expect_mask_shape(candidates, kCandidatePoints, {B, L, N, weights.candidates, 2});
    expect_mask_shape(others, kOtherPoints, {B, L, N, P - weights.unsure, 2});
    for (int64_t i = 0; i < L; ++i)
      points.push_back(
          {points_of_prediction(matching, i), points_of_prediction(candidates, i), points_of_prediction(others, i)});
    return points;
  }
  int64_t drawn = 0;
  const auto draw = [&](const Shape& shape) {
    const Tensor key = context.training ? next_random_key(context) : random_key(0, drawn++);
    return random_uniform(key, shape);
  };
  for (int64_t i = 0; i < L; ++i) {
    MaskPoints& each = points.emplace_back();
    each.matching = draw({B, P, 2});
    each.candidates = draw({B, N, weights.candidates, 2});
    each.others = draw({B, N, P - weights.unsure, 2});
  }
  return points;
}

Tensor at_points(const Tensor& maps, const Tensor& points) {
  const int64_t R = maps.dim(0), h = maps.dim(1), w = maps.dim(2), P = points.dim(1);
  const Tensor found =
      deformable_attention(reshape(cast(maps, DType::kFloat32), {R, h * w, 1, 1}), reshape(points, {R, P, 1, 1, 2}),
                           full({R, P, 1, 1}, 1), {.heights = {h}, .widths = {w}});
  return reshape(found, {R, P});
}

Tensor matched_masks(const Tensor& logits, const Tensor& masks, const MaskLabels& labels, const MaskWeights& weights,
                     const Tensor& points, const Computing& computing) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), N = labels.classes.dim(1), P = points.dim(1);
  if (N == 0) return full({B, 0}, 0, DType::kInt64);
  const Tensor found = at_shared_points(masks.detach(), points), wanted = at_shared_points(labels.masks, points);
  const auto products = [&](const Tensor& of_queries, const Tensor& of_objects) {  // [B, P, Q], [B, P, N] -> [B, Q, N]
    return dot_general(of_queries, of_objects, {{0}, {0}, {1}, {1}}, computing);
  };
  const Tensor surprise = products(softplus(-found), wanted) + products(softplus(found), 1.0 - wanted);
  const Tensor chances = sigmoid(found);
  const Tensor both = products(chances, wanted) * 2.0;
  const Tensor all = unsqueeze(reduce_sum(chances, {1}), 2) + unsqueeze(reduce_sum(wanted, {1}), 1);
  const Tensor apart = 1.0 - (both + 1.0) / (all + 1.0);
  const Tensor known = greater_equal(labels.classes, full({B, N}, 0, DType::kInt64));
  const Tensor ids = select(known, labels.classes, full({B, N}, 0, DType::kInt64));
  const Tensor of_class = take_along_axis(softmax(cast(logits, DType::kFloat32).detach(), computing),
                                          broadcast_to(unsqueeze(ids, 1), {B, Q, N}), 2);
  return linear_sum_assignment(
      surprise * (weights.mask / static_cast<double>(P)) - of_class * weights.classes + apart * weights.dice, known);
}

Tensor mask_loss(const Tensor& logits, const Tensor& masks, const MaskLabels& labels, const MaskWeights& weights,
                 const MaskPoints& points, const ForwardContext& context) {
  const int64_t B = logits.dim(0), Q = logits.dim(1), N = labels.classes.dim(1), h = masks.dim(2), w = masks.dim(3);
  const Tensor matches = matched_masks(logits, masks, labels, weights, points.matching, context.computing);
  const Tensor of_classes =
      class_loss_of_queries(logits, matches, labels.classes, weights.no_object, context) * weights.classes;
  if (N == 0) return of_classes;

  const Tensor none = full({B, N}, 0, DType::kInt64), is_matched = greater_equal(matches, none);
  const Tensor rows = select(is_matched, matches, none) + iota({B, N}, 0) * static_cast<double>(Q);
  const Tensor found = gather(reshape(masks, {B * Q, h, w}), reshape(rows, {B * N}), 0);
  const Tensor places = places_among_matches(matches);
  const int64_t K = weights.candidates, U = weights.unsure, R = B * N;
  const Tensor candidates = reshape(in_order_of_objects(points.candidates, places), {R, K, 2});
  Tensor at = reshape(in_order_of_objects(points.others, places), {R, weights.points - U, 2});
  if (U > 0) {
    const Tensor least_sure = top_k(-abs(at_points(found.detach(), candidates)), U).second;
    at = concatenate({take_along_axis(candidates, broadcast_to(unsqueeze(least_sure, 2), {R, U, 2}), 1), at}, 1);
  }
  const Tensor x = at_points(found, at), wanted = at_points(flatten(labels.masks, 0, 1), at);
  // The binary cross entropy, log(1 + exp(x)) - x wanted without overflow.
  const Tensor surprise = mean(relu(x) - x * wanted + log1p(exp(-abs(x))), {1});
  const Tensor chances = sigmoid(x);
  const Tensor both = reduce_sum(chances * wanted, {1}) * 2.0, all = reduce_sum(chances + wanted, {1});
  const Tensor apart = 1.0 - (both + 1.0) / (all + 1.0);
  const Tensor losses =
      (surprise * weights.mask + apart * weights.dice) * cast(reshape(is_matched, {R}), DType::kFloat32);
  return of_classes + mean_of(sum(losses), number_of_boxes({labels.classes, {}}), context);
}

}  // namespace transom
