// SPDX-License-Identifier: Apache-2.0
#include "sharding/placement.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

Range part_of(const Range& range, int64_t part, int64_t parts) {
  const int64_t each = range.size() / parts, larger = range.size() % parts;
  const auto begin_of = [&](int64_t i) { return range.begin + i * each + std::min(i, larger); };
  return {begin_of(part), begin_of(part + 1)};
}

namespace {

int64_t parts_of(const ProcessMesh& mesh, const Cut& cut) {
  int64_t parts = 1;
  for (const MeshAxis axis : cut.axes) parts *= mesh.size(axis);
  return parts;
}

}  // namespace

Cut make_cut(const ProcessMesh& mesh, std::vector<MeshAxis> axes, int64_t units, int64_t inner) {
  Cut cut{std::move(axes), units, inner, -1};
  if (const int64_t parts = parts_of(mesh, cut); units % parts == 0)
    cut.units = parts, cut.inner = inner * (units / parts);
  return cut;
}

Cut owned_cut(MeshAxis axis, int64_t extent, int64_t owner) { return {{axis}, 1, extent, owner}; }

Cut with_inner(const ProcessMesh& mesh, const Cut& cut, int64_t inner) {
  if (cut.owner >= 0) return {cut.axes, cut.units, inner, cut.owner};
  return make_cut(mesh, cut.axes, cut.units, inner);
}

bool gives_all_a_part(const ProcessMesh& mesh, const Cut& cut) {
  return cut.owner < 0 && parts_of(mesh, cut) <= cut.units;
}

Range units_of(const ProcessMesh& mesh, const Cut& cut, const std::vector<int64_t>& places) {
  Range range{0, cut.units};
  if (cut.owner >= 0) return places.empty() || places[0] == cut.owner ? range : Range{};
  for (size_t i = 0; i < cut.axes.size(); ++i) range = part_of(range, places[i], mesh.size(cut.axes[i]));
  return range;
}

Range local_units(const ProcessMesh& mesh, const Cut& cut) {
  std::vector<int64_t> places;
  for (const MeshAxis axis : cut.axes) places.push_back(mesh.coordinate(axis));
  return units_of(mesh, cut, places);
}

int64_t local_extent(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent) {
  for (const Cut& cut : cuts) extent /= cut.units;
  for (const Cut& cut : cuts) extent *= local_units(mesh, cut).size();
  return extent;
}

MeshAxes Placement::sharded() const {
  MeshAxes axes;
  for (const Cuts& cuts : dimensions)
    for (const Cut& cut : cuts)
      for (const MeshAxis axis : cut.axes) axes.add(axis);
  return axes;
}

size_t owned_dimension(const Placement& placement) {
  for (size_t d = 0; d < placement.dimensions.size(); ++d)
    for (const Cut& cut : placement.dimensions[d])
      if (cut.owner >= 0) return d;
  return placement.dimensions.size();
}

Placement replicated(size_t rank) { return {std::vector<Cuts>(rank), {}}; }

Placement sharded(const ProcessMesh& mesh, const Shape& shape, size_t dimension, std::vector<MeshAxis> axes,
                  int64_t inner) {
  Placement placement = replicated(shape.size());
  if (shape[dimension] % inner != 0)
    fail(ErrorKind::kInternal, "dimension {} of {} is not made of units of {}", dimension, to_string(shape), inner);
  placement.dimensions[dimension] = {make_cut(mesh, std::move(axes), shape[dimension] / inner, inner)};
  return placement;
}

Placement cut_further(const ProcessMesh& mesh, Placement placement, const Shape& shape, size_t dimension,
                      MeshAxis axis) {
  Cuts& cuts = placement.dimensions[dimension];
  if (cuts.size() > 1 || (!cuts.empty() && cuts[0].owner >= 0)) return placement;
  Cut cut{{axis}, shape[dimension], 1, -1};
  if (!cuts.empty()) {
    // Units of one element would move the borders of the parts that are there.
    cut = cuts[0];
    cut.axes.push_back(axis);
    const int64_t parts = parts_of(mesh, cuts[0]);
    if (cut.units % parts == 0) cut.units *= cut.inner, cut.inner = 1;
  }
  if (!gives_all_a_part(mesh, cut)) return placement;
  cuts = {make_cut(mesh, cut.axes, cut.units, cut.inner)};
  return placement;
}

Placement without_axes(const ProcessMesh& mesh, Placement placement, MeshAxes axes) {
  for (Cuts& cuts : placement.dimensions) {
    Cuts kept;
    for (const Cut& cut : cuts) {
      std::vector<MeshAxis> others;
      for (const MeshAxis axis : cut.axes)
        if (!axes.has(axis)) others.push_back(axis);
      if (cut.owner >= 0) kept.push_back(cut);  // what one process owns stays with it
      else if (!others.empty()) kept.push_back(make_cut(mesh, others, cut.units, cut.inner));
    }
    cuts = std::move(kept);
  }
  return placement;
}

std::string to_string(const Placement& placement) {
  std::string text;
  for (size_t d = 0; d < placement.dimensions.size(); ++d)
    for (const Cut& cut : placement.dimensions[d]) {
      text += text.empty() ? "" : ", ";
      for (size_t i = 0; i < cut.axes.size(); ++i) text += (i > 0 ? ", then " : "") + std::string(name_of(cut.axes[i]));
      if (cut.owner >= 0) text += fmt::format(" {} has all", cut.owner);
      else text += fmt::format(" cut{} {}", cut.axes.size() > 1 ? "" : "s", d);
    }
  if (!placement.partial.empty())
    text += (text.empty() ? "" : "; ") + ("to be summed over " + to_string(placement.partial));
  return text.empty() ? "replicated" : text;
}

Shape local_shape(const ProcessMesh& mesh, const Placement& placement, const Shape& shape) {
  if (placement.dimensions.size() != shape.size())
    fail(ErrorKind::kInternal, "a placement of {} dimensions for a tensor of {}", placement.dimensions.size(),
         to_string(shape));
  Shape local;
  for (size_t d = 0; d < shape.size(); ++d) local.push_back(local_extent(mesh, placement.dimensions[d], shape[d]));
  return local;
}

}  // namespace transom
