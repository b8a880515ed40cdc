// SPDX-License-Identifier: Apache-2.0
#include "models/nn/spec_augment.h"

#include <algorithm>

#include "base/error.h"
#include "models/nn/layers.h"

namespace transom {

Tensor masked_spans(int64_t rows, int64_t extent, const SpanMasking& masking, const Tensor& lengths,
                    ForwardContext& context) {
  if (masking.probability <= 0) return {};
  const int64_t L = masking.length;
  if (L < 1 || L > extent)
    fail("config.json: spans of {} are masked in training, but an input has only {} frames", L, extent);
  const auto whole = [&](double value) { return full({rows, 1}, value, DType::kInt64); };
  const Tensor given =
      lengths.defined() ? reshape(cast(lengths, DType::kInt64), {rows, 1}) : whole(static_cast<double>(extent));
  const Tensor starts = maximum(given - static_cast<double>(L - 1), whole(0));  // how many places a span may begin at

  // The number of spans of each row, rounded at random.
  const Tensor rounding = random_uniform(next_random_key(context), {1, 1});
  const Tensor wanted = cast(
      floor(cast(given, DType::kFloat32) * (masking.probability / static_cast<double>(L)) + rounding), DType::kInt64);
  const Tensor spans = minimum(
      minimum(maximum(wanted, whole(static_cast<double>(masking.least))), whole(static_cast<double>(extent / L))),
      starts);

  const auto most =
      static_cast<int64_t>(masking.probability * static_cast<double>(extent) / static_cast<double>(L)) + 1;
  const int64_t K = std::min(std::max(most, masking.least), extent / L);
  // Which places come first in a random order: a draw without repetition.
  const Tensor draw = random_uniform(next_random_key(context), {rows, extent});
  const Tensor allowed = less(iota({rows, extent}, 1), broadcast_to(starts, {rows, extent}));
  const Tensor first = top_k(select(allowed, draw, full(draw.shape(), -1)), K).second;  // [rows, K]
  const Shape all{rows, K, extent};
  const Tensor place = iota(all, 2), from = broadcast_to(unsqueeze(first, 2), all);
  const Tensor inside = logical_and(greater_equal(place, from), less(place, from + static_cast<double>(L)));
  const Tensor counted = less(iota(all, 1), broadcast_to(unsqueeze(spans, 2), all));
  const Tensor masked = cast(logical_and(inside, counted), DType::kInt64);
  return greater(reduce_max(masked, {1}), full({rows, extent}, 0, DType::kInt64));
}

}  // namespace transom
