// SPDX-License-Identifier: Apache-2.0
#include "models/families/rt_detr/rt_detr_queries.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/nn/layers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A box at each place of the maps, before the sigmoid: larger on coarser maps. Places at the edges of large maps have
// none: their boxes are as large as numbers are.
struct Anchors {
  Tensor boxes;  // f32 [1, S, 4]
  Tensor valid;  // f32 [1, S, 1]
};

Anchors anchors_of(const RTDetrMemory& memory) {
  constexpr float kNear = 1e-2f;
  std::vector<float> boxes, valid;
  for (size_t level = 0; level < memory.heights.size(); ++level) {
    const int64_t height = memory.heights[level], width = memory.widths[level];
    const float side = static_cast<float>(0.05 * std::pow(2.0, static_cast<double>(level)));
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const float parts[] = {(static_cast<float>(x) + 0.5f) / static_cast<float>(width),
                               (static_cast<float>(y) + 0.5f) / static_cast<float>(height), side, side};
        const bool inside =
            std::all_of(std::begin(parts), std::end(parts), [](float p) { return p > kNear && p < 1 - kNear; });
        for (const float part : parts)
          boxes.push_back(inside ? std::log(part / (1 - part)) : std::numeric_limits<float>::max());
        valid.push_back(inside ? 1.0f : 0.0f);
      }
  }
  const auto S = static_cast<int64_t>(valid.size());
  return {Tensor::from(boxes, {1, S, 4}), Tensor::from(valid, {1, S, 1})};
}

// Rows `places` [B, Q] of x [B, S, ...].
Tensor rt_detr_rows_at(const Tensor& x, const Tensor& places) {
  return take_along_axis(x, broadcast_to(unsqueeze(places, 2), {places.dim(0), places.dim(1), x.dim(2)}), 1);
}

// x [B, N, ...] so many times behind itself along axis 1.
Tensor repeated(const Tensor& x, int64_t times) {
  return concatenate(std::vector<Tensor>(static_cast<size_t>(times), x), 1);
}

// Boxes whose corners are moved: by up to half their extents of a near copy, by half to all of them of a far one. `far`
// f32 [1, T, 1].
Tensor with_moved_corners(const Tensor& boxes, const Tensor& far, double scale, ForwardContext& context) {
  const Tensor halves = slice(boxes, 2, 2, 4) * (0.5 * scale), reach = concatenate({halves, halves}, 2);
  const Tensor heads = less(random_uniform(next_random_key(context), boxes.shape()), full(boxes.shape(), 0.5));
  const Tensor sign = select(heads, full(boxes.shape(), -1), full(boxes.shape(), 1));
  const Tensor part = random_uniform(next_random_key(context), boxes.shape()) + far;
  const Tensor corners = box_corners(boxes) + part * sign * reach;
  const Tensor inside = minimum(maximum(corners, full(boxes.shape(), 0)), full(boxes.shape(), 1));
  const Tensor low = slice(inside, 2, 0, 2), high = slice(inside, 2, 2, 4);
  return concatenate({(low + high) * 0.5, high - low}, 2);
}

// Hides the noisy queries of a group, of which some places may hold no box, from all other queries.
Tensor mask_between(int64_t T, int64_t Q, int64_t group, const Tensor& counted) {
  const Shape all{T + Q, T + Q};
  const Tensor row = iota(all, 0), column = iota(all, 1), size = full(all, static_cast<double>(group), DType::kInt64);
  const Tensor noisy = less(column, full(all, static_cast<double>(T), DType::kInt64));
  const Tensor apart = not_equal(div(row, size), div(column, size));
  const Tensor empty = equal(concatenate({slice(counted, 0, 0, 1), full({1, Q}, 1)}, 1), full({1, T + Q}, 0));
  const Tensor hidden = logical_and(noisy, logical_or(apart, broadcast_to(empty, all)));
  return reshape(select(hidden, full(all, kMaskedScore), full(all, 0)), {1, 1, T + Q, T + Q});
}

}  // namespace

Tensor rt_detr_inverse_sigmoid(const Tensor& x) {
  constexpr double kLeast = 1e-5;
  const Tensor none = full(x.shape(), 0, x.dtype()), all = full(x.shape(), 1, x.dtype()),
               least = full(x.shape(), kLeast, x.dtype());
  const Tensor part = minimum(maximum(x, none), all);
  return log(maximum(part, least) / maximum(1.0 - part, least));
}

RTDetrSelection::RTDetrSelection(const Scope& scope, const RTDetrConfig& c)
    : c_(c),
      enc_output_(scope / "enc_output" / 0, c.d_model, c.d_model, {.deviation = c.initializer_range}),
      enc_output_norm_(scope / "enc_output" / 1, c.d_model, c.layer_norm_eps),
      enc_score_head_(scope / "enc_score_head", c.d_model, c.num_labels,
                      std::sqrt(2 / static_cast<double>(c.d_model + c.num_labels)), Initial::constant(c.first_bias)),
      enc_bbox_head_(scope / "enc_bbox_head", c.d_model, 4, 3, c.initializer_range) {
  if (c.learn_initial_query)
    weight_embedding_.emplace(scope / "weight_embedding", c.num_queries, c.d_model,
                              std::sqrt(2 / static_cast<double>(c.num_queries + c.d_model)));
}

RTDetrQueries RTDetrSelection::operator()(const RTDetrMemory& memory, ForwardContext& context) const {
  const Tensor& places = memory.places;
  if (places.dim(1) < c_.num_queries)
    fail("pixel_values: the maps have {} places, of which {} are to be queries (num_queries)", places.dim(1),
         c_.num_queries);
  const Anchors anchors = anchors_of(memory);
  const Tensor read = enc_output_norm_(enc_output_(places * cast(anchors.valid, places.dtype()), context), context);
  const Tensor logits = enc_score_head_(read, context);
  const Tensor boxes = cast(enc_bbox_head_(read, context), DType::kFloat32) + anchors.boxes;
  const Tensor best = top_k(reduce_max(logits.detach(), {2}), c_.num_queries).second;  // [B, Q]
  RTDetrQueries queries;
  queries.all_logits = logits, queries.all_boxes = boxes;
  const Tensor chosen = rt_detr_rows_at(boxes, best);
  queries.proposals = sigmoid(chosen);
  queries.boxes = chosen.detach();
  queries.logits = rt_detr_rows_at(logits, best);
  queries.states = rt_detr_rows_at(read, best).detach();
  if (weight_embedding_) {
    const Tensor learned = (*weight_embedding_)(iota({c_.num_queries}, 0), context);
    queries.states = broadcast_to(unsqueeze(cast(learned, read.dtype()), 0), queries.states.shape());
  }
  return queries;
}

RTDetrNoisyQueries rt_detr_noisy_queries(const BoxLabels& labels, const RTDetrConfig& c, ForwardContext& context) {
  const int64_t B = labels.classes.dim(0), N = labels.classes.dim(1);
  RTDetrNoisyQueries noisy;
  noisy.groups = std::max<int64_t>(c.num_denoising / std::max<int64_t>(N, 1), 1);
  const int64_t G = noisy.groups, T = 2 * N * G, C = c.num_labels;
  if (N > kRTDetrMostDenoising)
    fail(
        "a picture has more than {} boxes, for each of which two noisy queries would look at all others: leave boxes "
        "out, or set num_denoising to 0",
        kRTDetrMostDenoising);
  const Shape all{B, T};
  const Tensor is_box = counted_boxes(labels);
  const Tensor shown = repeated(cast(is_box, DType::kFloat32), 2 * G);
  const Tensor has_box = greater(shown, full(all, 0));
  // Which are far ones, f32 [1, T, 1].
  const Tensor within = remainder(iota({T}, 0), full({T}, static_cast<double>(2 * N), DType::kInt64));
  const Tensor far = cast(greater_equal(within, full({T}, static_cast<double>(N), DType::kInt64)), DType::kFloat32);

  const Tensor none = full({B, N}, static_cast<double>(C), DType::kInt64);
  noisy.classes = repeated(select(is_box, labels.classes, none), 2 * G);
  if (c.label_noise_ratio > 0) {
    const Tensor changes = less(random_uniform(next_random_key(context), all), full(all, 0.5 * c.label_noise_ratio));
    const Tensor drawn = cast(random_uniform(next_random_key(context), all) * static_cast<double>(C), DType::kInt64);
    const Tensor last = full(all, static_cast<double>(C - 1), DType::kInt64);
    noisy.classes = select(logical_and(changes, has_box), minimum(drawn, last), noisy.classes);
  }
  const Tensor given =
      select(broadcast_to(unsqueeze(is_box, 2), {B, N, 4}), cast(labels.boxes, DType::kFloat32), full({B, N, 4}, 0));
  Tensor boxes = repeated(given, 2 * G);
  if (c.box_noise_scale > 0) boxes = with_moved_corners(boxes, reshape(far, {1, T, 1}), c.box_noise_scale, context);
  noisy.boxes = rt_detr_inverse_sigmoid(boxes);

  const Tensor counted = reduce_max(shown, {0}, true);  // [1, T]
  noisy.counted = broadcast_to(counted, all);
  noisy.mask = mask_between(T, c.num_queries, 2 * N, counted);
  noisy.labels = {repeated(labels.classes, G), repeated(labels.boxes, G)};
  const Shape pairs{B, G * N};
  const Tensor size = full(pairs, static_cast<double>(N), DType::kInt64), column = iota(pairs, 1);
  const Tensor near = div(column, size) * static_cast<double>(2 * N) + remainder(column, size);
  noisy.matches = select(counted_boxes(noisy.labels), near, full(pairs, -1, DType::kInt64));
  return noisy;
}

}  // namespace transom
