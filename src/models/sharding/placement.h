// SPDX-License-Identifier: Apache-2.0
// Where the elements of a tensor are: which axes of the mesh cut which of its dimensions, and over which axes it is
// still to be summed. Along all other axes each process has the same.
#pragma once

#include <string>
#include <vector>

#include "models/sharding/process_mesh.h"
#include "transom/tensor.h"

namespace transom {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
// Part `part` of `parts` of the range, as even as can be, the first parts being the larger ones.
Range part_of(const Range& range, int64_t part, int64_t parts);

// Units that are not cut apart, of `inner` elements each.
struct CutUnits {
  int64_t units = 1, inner = 1;
  int64_t extent() const { return units * inner; }
  bool operator==(const CutUnits&) const = default;
};

// A dimension seen as [outer, units, inner], its units dealt to the processes along the axes: each axis cuts what the
// one before left. A dimension may have several cuts, the outer ones first: rows of a batch that is cut by samples and
// by places have two once both are joined to one dimension.
struct Cut {
  std::vector<MeshAxis> axes;
  int64_t units = 1, inner = 1;
  // Above -1: one unit, which the process at this place along the one axis has, and the others nothing.
  int64_t owner = -1;
  // Not empty: several dimensions of unlike units stand joined, as queries, keys and values do in one layer, and each
  // is dealt by itself: [outer, all of them]. `units` and `inner` are 1 then, and the dimension has no other cut. Those
  // of equal units are [outer, units, inner].
  std::vector<CutUnits> joined = {};
  bool operator==(const Cut&) const = default;
};
using Cuts = std::vector<Cut>;  // of one dimension; none: whole

// The cut of `units` units, in the one form that equal cuts have: where they are dealt evenly, the largest units.
Cut make_cut(const ProcessMesh& mesh, std::vector<MeshAxis> axes, int64_t units, int64_t inner);
// All of a dimension for the process at `owner` along the axis.
Cut owned_cut(MeshAxis axis, int64_t extent, int64_t owner);
// The cut of dimensions that stand joined, in the one form that equal cuts have.
Cut make_joined_cut(const ProcessMesh& mesh, const std::vector<MeshAxis>& axes, std::vector<CutUnits> parts);
// What stands joined; of any other cut the one dimension. Their extents together: the cut begins anew behind them.
std::vector<CutUnits> parts_of(const Cut& cut);
int64_t extent_of(const Cut& cut);
// The same cut of units `factor` times as large; of units of which each has `divisor` parts, of these parts.
Cut multiplied(const ProcessMesh& mesh, const Cut& cut, int64_t factor);
Cut divided(const ProcessMesh& mesh, const Cut& cut, int64_t divisor);
// The same units dealt along other axes.
Cut with_axes(const ProcessMesh& mesh, const Cut& cut, std::vector<MeshAxis> axes);
// Whether every process gets a unit.
bool gives_all_a_part(const ProcessMesh& mesh, const Cut& cut);
// The units of the process at these places along the axes of the cut; those of this process. Not of joined dimensions.
Range units_of(const ProcessMesh& mesh, const Cut& cut, const std::vector<int64_t>& places);
Range local_units(const ProcessMesh& mesh, const Cut& cut);
// What this process has of a dimension of that extent; of these units along the axes of the cut.
int64_t local_extent(const ProcessMesh& mesh, const Cuts& cuts, int64_t extent);
int64_t local_extent(const ProcessMesh& mesh, const Cut& cut, const CutUnits& part);

struct Placement {
  std::vector<Cuts> dimensions;
  MeshAxes partial;  // the value is the sum over these axes of what the processes have

  bool operator==(const Placement&) const = default;
  MeshAxes sharded() const;  // the axes that cut a dimension
  bool is_replicated() const { return partial.empty() && sharded().empty(); }
};
Placement replicated(size_t rank);
// The dimension whose cut has an owner; none: the rank.
size_t owned_dimension(const Placement& placement);
// The first dimension along which something goes elsewhere that stands joined before or afterwards; none: the rank.
size_t moved_joined_dimension(const Placement& now, const Placement& then);
// Dimension `dimension` cut along one axis after the other, in units of `inner` elements.
Placement sharded(const ProcessMesh& mesh, const Shape& shape, size_t dimension, std::vector<MeshAxis> axes,
                  int64_t inner = 1);
// The placement with dimension `dimension` cut by one more axis, within the parts that it is cut into already; the same
// where some process would be left without a part.
Placement cut_further(const ProcessMesh& mesh, Placement placement, const Shape& shape, size_t dimension,
                      MeshAxis axis);
// Whole along these axes, where they are the last ones of their cuts; what one process owns stays with it.
Placement without_axes(const ProcessMesh& mesh, Placement placement, MeshAxes axes);
// "fsdp cuts 0; to be summed over dp"; "replicated". Of a tensor of that shape also what stands joined: "tp cuts 0,
// which joins 64 + 16 + 16".
std::string to_string(const Placement& placement, const Shape& shape = {});

Shape local_shape(const ProcessMesh& mesh, const Placement& placement, const Shape& shape);

}  // namespace transom
