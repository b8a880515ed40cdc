// SPDX-License-Identifier: Apache-2.0
// The processes of a run as a mesh with named axes. Ranks count from the outer axis to the inner one, so that the
// inner axes, which talk most, lie within a server.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace transom {

// From outer to inner.
enum class MeshAxis { kPipeline, kData, kShard, kContext, kExpert, kTensor };
constexpr size_t kMeshAxes = 6;
constexpr std::array<MeshAxis, kMeshAxes> kAllMeshAxes = {MeshAxis::kPipeline, MeshAxis::kData,   MeshAxis::kShard,
                                                          MeshAxis::kContext,  MeshAxis::kExpert, MeshAxis::kTensor};
const char* name_of(MeshAxis axis);  // "pp", "dp", "fsdp", "cp", "ep", "tp"

// A set of axes.
class MeshAxes {
 public:
  MeshAxes() = default;
  MeshAxes(std::initializer_list<MeshAxis> axes) {
    for (const MeshAxis axis : axes) add(axis);
  }
  bool has(MeshAxis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  bool empty() const { return bits_ == 0; }
  void add(MeshAxis axis) { bits_ |= 1U << static_cast<unsigned>(axis); }
  void remove(MeshAxis axis) { bits_ &= ~(1U << static_cast<unsigned>(axis)); }
  MeshAxes operator|(MeshAxes other) const { return MeshAxes(bits_ | other.bits_); }
  MeshAxes operator&(MeshAxes other) const { return MeshAxes(bits_ & other.bits_); }
  MeshAxes without(MeshAxes other) const { return MeshAxes(bits_ & ~other.bits_); }
  bool operator==(const MeshAxes&) const = default;

 private:
  explicit MeshAxes(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};
std::string to_string(MeshAxes axes);  // "dp x fsdp"

// The place of one process in the mesh.
class ProcessMesh {
 public:
  using Sizes = std::array<int64_t, kMeshAxes>;
  // Throws an Error of kind kUsage unless the sizes are positive and their product is the number of ranks.
  ProcessMesh(const Sizes& sizes, int64_t rank, int64_t ranks);

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return ranks_; }
  int64_t size(MeshAxis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t coordinate(MeshAxis axis) const { return coordinates_[static_cast<size_t>(axis)]; }
  int64_t size(MeshAxes axes) const;
  // This process's place among those of group(axes).
  int64_t coordinate(MeshAxes axes) const;
  // The ranks that differ from this one along these axes only, rising; this one is among them.
  std::vector<int64_t> group(MeshAxes axes) const;

 private:
  Sizes sizes_, coordinates_;
  int64_t rank_, ranks_;
};

}  // namespace transom
