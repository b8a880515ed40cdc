// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/placement.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

Range part_of(const Range& range, int64_t part, int64_t parts) {
  const int64_t each = range.size() / parts, larger = range.size() % parts;
  const auto begin_of = [&](int64_t i) { return range.begin + i * each + std::min(i, larger); };
  return {begin_of(part), begin_of(part + 1)};
}

namespace {

int64_t processes_of(const ProcessMesh& mesh, const Cut& cut) {
  int64_t processes = 1;
  for (const MeshAxis axis : cut.axes) processes *= mesh.size(axis);
  return processes;
}

}  // namespace

Cut make_cut(const ProcessMesh& mesh, std::vector<MeshAxis> axes, int64_t units, int64_t inner) {
  Cut cut{std::move(axes), units, inner, -1};
  if (const int64_t parts = processes_of(mesh, cut); units % parts == 0)
    cut.units = parts, cut.inner = inner * (units / parts);
  return cut;
}

Cut make_joined_cut(const ProcessMesh& mesh, const std::vector<MeshAxis>& axes, std::vector<CutUnits> parts) {
  for (CutUnits& part : parts) {
    const Cut cut = make_cut(mesh, axes, part.units, part.inner);
    part = {cut.units, cut.inner};
  }
  if (std::all_of(parts.begin(), parts.end(), [&](const CutUnits& part) { return part == parts[0]; }))
    return {axes, parts[0].units, parts[0].inner, -1};
  return {axes, 1, 1, -1, std::move(parts)};
}

std::vector<CutUnits> parts_of(const Cut& cut) {
  return cut.joined.empty() ? std::vector<CutUnits>{{cut.units, cut.inner}} : cut.joined;
}

int64_t extent_of(const Cut& cut) {
  int64_t extent = 0;
  for (const CutUnits& part : parts_of(cut)) extent += part.extent();
  return extent;
}

Cut owned_cut(MeshAxis axis, int64_t extent, int64_t owner) { return {{axis}, 1, extent, owner}; }

Cut multiplied(const ProcessMesh& mesh, const Cut& cut, int64_t factor) {
  if (cut.owner >= 0) return {cut.axes, cut.units, cut.inner * factor, cut.owner};
  std::vector<CutUnits> parts = parts_of(cut);
  for (CutUnits& part : parts) part.inner *= factor;
  return make_joined_cut(mesh, cut.axes, std::move(parts));
}

Cut divided(const ProcessMesh& mesh, const Cut& cut, int64_t divisor) {
  if (cut.owner >= 0) return {cut.axes, cut.units, cut.inner / divisor, cut.owner};
  std::vector<CutUnits> parts = parts_of(cut);
  for (CutUnits& part : parts) part.inner /= divisor;
  return make_joined_cut(mesh, cut.axes, std::move(parts));
}

Cut with_axes(const ProcessMesh& mesh, const Cut& cut, std::vector<MeshAxis> axes) {
  return make_joined_cut(mesh, axes, parts_of(cut));
}

bool gives_all_a_part(const ProcessMesh& mesh, const Cut& cut) {
  const std::vector<CutUnits> parts = parts_of(cut);
  return cut.owner < 0 && std::all_of(parts.begin(), parts.end(),
                                      [&](const CutUnits& part) { return processes_of(mesh, cut) <= part.units; });
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

int64_t local_extent(const ProcessMesh& mesh, const Cut& cut, const CutUnits& part) {
  return local_units(mesh, {cut.axes, part.units, part.inner, cut.owner}).size() * part.inner;
}

int64_t local_extent(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent) {
  if (cuts.size() == 1 && !cuts[0].joined.empty()) {
    int64_t local = 0;
    for (const CutUnits& part : cuts[0].joined) local += local_extent(mesh, cuts[0], part);
    return extent / extent_of(cuts[0]) * local;
  }
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

size_t moved_joined_dimension(const Placement& now, const Placement& then) {
  const auto is_joined = [](const Cuts& cuts) { return cuts.size() == 1 && !cuts[0].joined.empty(); };
  size_t d = 0;
  while (d < then.dimensions.size() &&
         (now.dimensions[d] == then.dimensions[d] || !(is_joined(now.dimensions[d]) || is_joined(then.dimensions[d]))))
    ++d;
  return d;
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
  std::vector<MeshAxis> axes{axis};
  std::vector<CutUnits> parts{{shape[dimension], 1}};
  if (!cuts.empty()) {
    axes = cuts[0].axes;
    axes.push_back(axis);
    parts = parts_of(cuts[0]);
    // Units of one element would move the borders of uneven parts that are there.
    for (CutUnits& part : parts)
      if (part.units % processes_of(mesh, cuts[0]) == 0) part = {part.extent(), 1};
  }
  const Cut cut = make_joined_cut(mesh, axes, std::move(parts));
  if (!gives_all_a_part(mesh, cut)) return placement;
  cuts = {cut};
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
      else if (!others.empty()) kept.push_back(with_axes(mesh, cut, others));
    }
    cuts = std::move(kept);
  }
  return placement;
}

std::string to_string(const Placement& placement, const Shape& shape) {
  std::string text;
  for (size_t d = 0; d < placement.dimensions.size(); ++d)
    for (const Cut& cut : placement.dimensions[d]) {
      text += text.empty() ? "" : ", ";
      for (size_t i = 0; i < cut.axes.size(); ++i) text += (i > 0 ? ", then " : "") + std::string(name_of(cut.axes[i]));
      if (cut.owner >= 0) text += fmt::format(" {} has all", cut.owner);
      else text += fmt::format(" cut{} {}", cut.axes.size() > 1 ? "" : "s", d);
      if (shape.empty() || cut.owner >= 0 || extent_of(cut) == 0) continue;
      std::string widths;
      int64_t joined = 0;
      for (int64_t begin = 0; begin < shape[d]; begin += extent_of(cut))
        for (const CutUnits& part : parts_of(cut))
          widths += fmt::format("{}{}", joined++ > 0 ? " + " : "", part.extent());
      if (joined > 1) text += ", which joins " + widths;
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
