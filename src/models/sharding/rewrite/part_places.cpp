// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rewrite/part_places.h"

namespace transom {
namespace {

// Of dimensions that stand joined, the places of each in turn.
std::vector<int64_t> places_of_joined(const ProcessMesh& mesh, const Cut& cut, int64_t extent) {
  std::vector<int64_t> places;
  for (int64_t begin = 0; begin < extent;)
    for (const CutUnits& part : cut.joined) {
      const Range range = local_units(mesh, {cut.axes, part.units, part.inner, -1});
      for (int64_t i = range.begin * part.inner; i < range.end * part.inner; ++i) places.push_back(begin + i);
      begin += part.extent();
    }
  return places;
}

std::vector<int64_t> places_of(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent) {
  if (cuts.size() == 1 && !cuts[0].joined.empty()) return places_of_joined(mesh, cuts[0], extent);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < extent; ++i) {
    bool mine = true;
    for (const Cut& cut : cuts) {
      const int64_t unit = i / cut.inner % cut.units;
      const Range range = local_units(mesh, cut);
      mine = mine && unit >= range.begin && unit < range.end;
    }
    if (mine) places.push_back(i);
  }
  return places;
}

}  // namespace

std::vector<std::vector<int64_t>> places_of_part(const ProcessMesh& mesh, const Placement& placement,
                                                 const Shape& shape) {
  std::vector<std::vector<int64_t>> places;
  for (size_t d = 0; d < shape.size(); ++d) places.push_back(places_of(mesh, placement.dimensions[d], shape[d]));
  return places;
}

std::vector<PartBox> boxes_of_part(const ProcessMesh& mesh, const Placement& placement, const Shape& shape) {
  std::vector<PartBox> boxes{{}};
  for (const std::vector<int64_t>& places : places_of_part(mesh, placement, shape)) {
    std::vector<PartBox> next;
    for (const PartBox& box : boxes)
      for (size_t begin = 0; begin < places.size();) {
        size_t end = begin + 1;
        while (end < places.size() && places[end] == places[end - 1] + 1) ++end;
        PartBox longer = box;
        longer.offsets.push_back(places[begin]);
        longer.extents.push_back(static_cast<int64_t>(end - begin));
        longer.local.push_back(static_cast<int64_t>(begin));
        next.push_back(std::move(longer));
        begin = end;
      }
    boxes = std::move(next);
  }
  return boxes;
}

}  // namespace transom
