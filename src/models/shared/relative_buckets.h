// SPDX-License-Identifier: Apache-2.0
// A bias on attention scores that depends on the distance of two tokens, far distances sharing a row of its table
// (Raffel et al., 2020). B batch, T queries, S keys, H heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/shared/relative_distance.h"
#include "transom/layers.h"

namespace transom {

// The first half of the buckets hold a distance each, the others ever longer ranges up to the greatest distance. With
// both sides there are half as many, twice: for keys before the query, and for keys behind it.
struct RelativeBuckets {
  int64_t count, farthest;
  bool both_sides = true;
  bool rounds_sum = false;  // the place of a range is added before it is cut to a whole number

  int64_t of(int64_t distance) const {
    const int64_t buckets = both_sides ? count / 2 : count, side = both_sides && distance > 0 ? buckets : 0;
    const int64_t length = both_sides ? std::abs(distance) : std::max<int64_t>(-distance, 0), exact = buckets / 2;
    if (length < exact) return side + length;
    const float ratio = std::log(static_cast<float>(length) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(farthest) / static_cast<double>(exact)));
    const float range = ratio * static_cast<float>(buckets - exact);
    const int64_t bucket =
        rounds_sum ? static_cast<int64_t>(static_cast<float>(exact) + range) : exact + static_cast<int64_t>(range);
    return side + std::min(bucket, buckets - 1);
  }
};

// `distance`, key minus query, i64 [B or 1, T, S] -> [B or 1, H, T, S]. Beyond the greatest distance all share a
// bucket, so that one table serves every length. `table` gives [N, H] for N rows and the context.
template <typename Table>
Tensor bucketed_bias(const Table& table, const RelativeBuckets& buckets, const Tensor& distance,
                     const ForwardContext& context) {
  const int64_t M = buckets.farthest;
  std::vector<int64_t> rows;  // of the distances -M .. M
  for (int64_t away = -M; away <= M; ++away) rows.push_back(buckets.of(away));
  const Tensor by_distance = table(Tensor::from(rows, {2 * M + 1}), context);  // [2 M + 1, H]
  return permute(gather(by_distance, clipped(distance, M) + static_cast<double>(M), 0), {0, 3, 1, 2});
}

}  // namespace transom
