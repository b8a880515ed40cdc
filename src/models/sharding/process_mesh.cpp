// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/process_mesh.h"

#include "base/error.h"

namespace transom {

const char* name_of(MeshAxis axis) {
  constexpr std::array<const char*, kMeshAxes> kNames = {"pp", "dp", "fsdp", "cp", "ep", "tp"};
  return kNames[static_cast<size_t>(axis)];
}

std::string to_string(MeshAxes axes) {
  std::string text;
  for (const MeshAxis axis : kAllMeshAxes)
    if (axes.has(axis)) text += (text.empty() ? "" : " x ") + std::string(name_of(axis));
  return text;
}

ProcessMesh::ProcessMesh(const Sizes& sizes, int64_t rank, int64_t ranks) : sizes_(sizes), rank_(rank), ranks_(ranks) {
  int64_t product = 1;
  std::string shape;
  for (const MeshAxis axis : kAllMeshAxes) {
    const int64_t extent = size(axis);
    if (extent < 1 || extent > ranks)
      fail(ErrorKind::kUsage, "a mesh of {} ranks: expected between 1 and {} along {}, found {}", ranks, ranks,
           name_of(axis), extent);
    product *= extent;
    if (extent > 1) shape += (shape.empty() ? "" : " x ") + fmt::format("{} {}", name_of(axis), extent);
  }
  if (product != ranks)
    fail(ErrorKind::kUsage, "a mesh of {}: expected {} ranks, found {}", shape.empty() ? "one rank" : shape, product,
         ranks);
  if (rank < 0 || rank >= ranks) fail(ErrorKind::kUsage, "rank {} is outside of a mesh of {} ranks", rank, ranks);
  int64_t rest = rank;
  for (size_t i = kMeshAxes; i-- > 0;) {
    coordinates_[i] = rest % sizes_[i];
    rest /= sizes_[i];
  }
}

int64_t ProcessMesh::size(MeshAxes axes) const {
  int64_t product = 1;
  for (const MeshAxis axis : kAllMeshAxes)
    if (axes.has(axis)) product *= size(axis);
  return product;
}

int64_t ProcessMesh::coordinate(MeshAxes axes) const {
  int64_t place = 0;
  for (const MeshAxis axis : kAllMeshAxes)
    if (axes.has(axis)) place = place * size(axis) + coordinate(axis);
  return place;
}

std::vector<int64_t> ProcessMesh::group(MeshAxes axes) const {
  std::vector<int64_t> ranks{0};
  for (const MeshAxis axis : kAllMeshAxes) {
    std::vector<int64_t> next;
    for (const int64_t rank : ranks)
      for (int64_t i = 0; i < size(axis); ++i)
        if (axes.has(axis) || i == coordinate(axis)) next.push_back(rank * size(axis) + i);
    ranks = std::move(next);
  }
  return ranks;
}

}  // namespace transom
