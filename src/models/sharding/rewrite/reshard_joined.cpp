// SPDX-License-Identifier: Apache-2.0
// Dimensions in which several stand joined, from one placement to another.
#include <numeric>

#include "models/sharding/rewrite/reshard.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<int64_t> extents_of(const Cuts& cuts) {
  std::vector<int64_t> extents;
  for (const CutUnits& part : parts_of(cuts[0])) extents.push_back(part.extent());
  return extents;
}

// A dimension as two, [outer, the rest]; and as one again.
Tensor opened(const Tensor& x, size_t dimension, int64_t outer) {
  Shape shape = x.shape();
  shape[dimension] /= outer;
  shape.insert(shape.begin() + static_cast<long>(dimension), outer);
  return reshape(x, shape);
}
Tensor closed_again(const Tensor& x, size_t dimension) {
  Shape shape = x.shape();
  shape[dimension + 1] *= shape[dimension];
  shape.erase(shape.begin() + static_cast<long>(dimension));
  return reshape(x, shape);
}

}  // namespace

// Each of what stands joined goes there by itself.
ShardedValue Resharder::reshard_joined(const ShardedValue& value, const Placement& target, size_t dimension) {
  const Cuts &now = value.placement.dimensions[dimension], &then = target.dimensions[dimension];
  if (!now.empty() && !then.empty() && extents_of(now) != extents_of(then)) {
    Placement whole = target;
    whole.dimensions[dimension].clear();
    return reshard(reshard(value, whole), target);
  }
  const auto part_along = [](const Cuts& cuts, size_t i) {
    if (cuts.empty()) return cuts;
    const CutUnits part = cuts[0].joined[i];
    return Cuts{{cuts[0].axes, part.units, part.inner, -1}};
  };
  const std::vector<int64_t> extents = extents_of(now.empty() ? then : now);
  const int64_t outer = value.shape[dimension] / std::accumulate(extents.begin(), extents.end(), int64_t{0});
  const Tensor all = opened(value.local, dimension, outer);
  const auto along = static_cast<int64_t>(dimension) + 1;
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    ShardedValue part = value;
    Placement to = target;
    part.shape[dimension] = outer * extents[i];
    part.placement.dimensions[dimension] = part_along(now, i);
    to.dimensions[dimension] = part_along(then, i);
    const int64_t end = begin + local_extent(mesh_, part.placement.dimensions[dimension], extents[i]);
    part.local = closed_again(slice(all, along, begin, end), dimension);
    parts.push_back(opened(reshard(part, to).local, dimension, outer));
    begin = end;
  }
  return {closed_again(concatenate(parts, along), dimension), value.shape, target};
}

}  // namespace transom
