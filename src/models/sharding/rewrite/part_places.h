// SPDX-License-Identifier: Apache-2.0
// Where the elements of a process's part lie in the whole tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "models/sharding/placement.h"

namespace transom {

// For each dimension the places of this process's elements, rising: the part has what lies at all their combinations.
std::vector<std::vector<int64_t>> places_of_part(const ProcessMesh& mesh, const Placement& placement,
                                                 const Shape& shape);

// A box of neighbouring elements of the whole, and where it lies in the part.
struct PartBox {
  std::vector<int64_t> offsets, extents;  // in the whole
  std::vector<int64_t> local;             // where it begins in the part
};
// The part as boxes. Most parts are one; parts of joined weights (query, key and value in one) are several.
std::vector<PartBox> boxes_of_part(const ProcessMesh& mesh, const Placement& placement, const Shape& shape);

}  // namespace transom
