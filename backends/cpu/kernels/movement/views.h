// SPDX-License-Identifier: Apache-2.0
// Strided ways to look at a dense tensor, in elements. Strides may be 0 (repeated) or negative (reversed).
#pragma once

#include <optional>
#include <vector>

#include "cpu/device/types.h"

namespace transom::cpu {

struct View {
  Shape shape;
  Shape strides;
  int64_t offset = 0;
};

Shape dense_strides(const Shape& shape);
View dense_view(const Shape& shape);

// The same elements in the same order under another shape; none if no strides express it.
std::optional<View> reshape_view(const View& view, const Shape& shape);

// Extents of 1 repeated; the shapes have one rank.
View broadcast_view(const View& view, const Shape& shape);

// One loop nest over several tensors: drops axes of extent 1 and joins neighbours that all tensors walk as one axis.
// `strides` holds one list of strides for each tensor. Rank 0 becomes one axis of extent 1.
struct LoopNest {
  Shape shape;
  std::vector<Shape> strides;
};
LoopNest collapse(const Shape& shape, const std::vector<Shape>& strides);

// Where the element with number `index` (row-major) of `shape` lies.
inline int64_t offset_of(int64_t index, const Shape& shape, const Shape& strides) {
  int64_t offset = 0;
  for (size_t axis = shape.size(); axis-- > 0;) {
    offset += index % shape[axis] * strides[axis];
    index /= shape[axis];
  }
  return offset;
}

}  // namespace transom::cpu
