// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/strategies/joined_dimensions.h"

#include <algorithm>
#include <optional>

#include "graph/passes/graph_builder.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The dimensions that stand joined in one of that extent.
std::vector<CutUnits> joined_in(const Cut& cut, int64_t extent) {
  const std::vector<CutUnits> parts = parts_of(cut);
  std::vector<CutUnits> all;
  for (int64_t begin = 0; begin < extent; begin += extent_of(cut)) all.insert(all.end(), parts.begin(), parts.end());
  return all;
}

// Those of them that elements [begin, end) are; none where a border is within one.
std::optional<Range> parts_between(const std::vector<CutUnits>& parts, int64_t begin, int64_t end) {
  Range found{-1, -1};
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (at == begin) found.begin = static_cast<int64_t>(i);
    at += parts[i].extent();
    if (at == end) found.end = static_cast<int64_t>(i) + 1;
  }
  if (found.begin < 0 || found.end <= found.begin) return std::nullopt;
  return found;
}

// How a process has [begin, end) of a dimension that is cut so.
struct JoinedSlice {
  Cuts cuts;       // of what is sliced
  Range local;     // among its elements
  int64_t extent;  // of all of them
};
std::optional<JoinedSlice> slice_of(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent, int64_t begin,
                                    int64_t end) {
  if (cuts.size() != 1 || cuts[0].owner >= 0 || extent == 0) return std::nullopt;
  const std::vector<CutUnits> parts = joined_in(cuts[0], extent);
  const std::optional<Range> range = parts_between(parts, begin, end);
  if (!range) return std::nullopt;
  const auto first = parts.begin() + range->begin, last = parts.begin() + range->end;
  JoinedSlice result{{make_joined_cut(mesh, cuts[0].axes, {first, last})}, {}, 0};
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (part == first) result.local.begin = result.extent;
    result.extent += local_extent(mesh, cuts[0], *part);
    if (part + 1 == last) result.local.end = result.extent;
  }
  return result;
}

std::vector<int64_t> place_of_slice(const Shape& whole, const Axes& begin, const Shape& part) {
  std::vector<int64_t> place(whole.begin(), whole.end());
  place.insert(place.end(), begin.begin(), begin.end());
  place.insert(place.end(), part.begin(), part.end());
  return place;
}

}  // namespace

Sharded JoinedDimensions::shard(const NodePointer& node) {
  const bool is_slice = node->operation == &find_operation("slice"), is_pad = node->operation == &find_operation("pad");
  return (is_slice && slice_joined(node)) || (is_pad && pad_joined(node)) ? Sharded::kYes : Sharded::kNo;
}

bool JoinedDimensions::slice_joined(const NodePointer& node) {
  if (!forms_.stored(node->inputs[0]).empty()) return false;
  const ShardedValue x = forms_.first(node->inputs[0]);
  Axes starts = node->attributes.get_ints("starts"), limits = node->attributes.get_ints("limits");
  const Axes& strides = node->attributes.get_ints("strides");
  ShardedValue output{{}, node->types[0].shape, x.placement};
  std::vector<Cuts> joined(x.shape.size());
  bool found = false;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Cuts& cuts = x.placement.dimensions[d];
    if (cuts.empty()) continue;
    if (starts[d] == 0 && limits[d] == x.shape[d] && strides[d] == 1) {
      limits[d] = x.local.dim(static_cast<int64_t>(d));
      continue;
    }
    const auto slice = strides[d] == 1 ? slice_of(forms_.mesh(), cuts, x.shape[d], starts[d], limits[d]) : std::nullopt;
    if (!slice) return false;
    starts[d] = slice->local.begin, limits[d] = slice->local.end;
    output.placement.dimensions[d] = slice->cuts;
    joined[d] = cuts;
    found = true;
  }
  if (!found) return false;
  sliced_[place_of_slice(x.shape, node->attributes.get_ints("starts"), output.shape)] = std::move(joined);
  output.local =
      make_tensor(*node->operation, {x.local}, {{"starts", starts}, {"limits", limits}, {"strides", strides}});
  forms_.store(node, {output});
  return true;
}

bool JoinedDimensions::pad_joined(const NodePointer& node) {
  const Shape& whole = node->types[0].shape;
  Axes low = node->attributes.get_ints("low"), high = node->attributes.get_ints("high");
  const auto found = sliced_.find(place_of_slice(whole, low, node->inputs[0].shape()));
  const ShardedValue& x = forms_.first(node->inputs[0]);
  if (found == sliced_.end() || !forms_.stored(node->inputs[0]).empty()) return false;
  if (!x.placement.partial.empty() && node->attributes.get_float("value") != 0) return false;
  Placement from = x.placement, to = x.placement;
  for (size_t d = 0; d < whole.size(); ++d) {
    const Cuts& cuts = found->second[d];
    if (cuts.empty()) {
      if (!from.dimensions[d].empty() && low[d] + high[d] > 0) return false;
      continue;
    }
    const auto slice = slice_of(forms_.mesh(), cuts, whole[d], low[d], whole[d] - high[d]);
    if (!slice) return false;
    from.dimensions[d] = slice->cuts;
    to.dimensions[d] = cuts;
    low[d] = slice->local.begin, high[d] = slice->extent - slice->local.end;
    MeshAxes axes;
    for (const MeshAxis axis : cuts[0].axes) axes.add(axis);
    from.partial = to.partial = from.partial.without(axes);
    for (size_t other = 0; other < whole.size(); ++other)
      for (const Cut& cut : other == d ? Cuts() : x.placement.dimensions[other])
        for (const MeshAxis axis : cut.axes)
          if (axes.has(axis)) return false;
  }
  Attributes attributes = node->attributes;
  attributes.set("low", low);
  attributes.set("high", high);
  const Tensor local = make_tensor(*node->operation, {forms_.in_form(node->inputs[0], from).local}, attributes);
  forms_.store(node, {{local, whole, to}});
  return true;
}

}  // namespace transom
