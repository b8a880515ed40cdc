// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels/movement/views.h"

#include <algorithm>

namespace transom::cpu {

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

View dense_view(const Shape& shape) { return {shape, dense_strides(shape), 0}; }

std::optional<View> reshape_view(const View& view, const Shape& shape) {
  const int64_t count = product(shape, 0, shape.size());
  if (count == 0) return View{shape, Shape(shape.size(), 0), 0};
  const LoopNest nest = collapse(view.shape, {view.strides});
  // Each joined axis of the view must be a run of axes of the new shape.
  View result{shape, Shape(shape.size(), 0), view.offset};
  size_t axis = shape.size();
  for (size_t old = nest.shape.size(); old-- > 0;) {
    int64_t covered = 1;
    while (covered < nest.shape[old]) {
      if (axis == 0) return std::nullopt;
      --axis;
      result.strides[axis] = nest.strides[0][old] * covered;
      covered *= shape[axis];
    }
    if (covered != nest.shape[old]) return std::nullopt;
  }
  while (axis > 0)
    if (shape[--axis] != 1) return std::nullopt;
  return result;
}

View broadcast_view(const View& view, const Shape& shape) {
  if (view.shape.size() != shape.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected a broadcast to the same rank {}, found {}", view.shape.size(),
         shape.size());
  View result{shape, view.strides, view.offset};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (view.shape[axis] == shape[axis]) continue;
    if (view.shape[axis] != 1)
      fail(TRANSOM_INVALID_ARGUMENT, "expected extent 1 or {} to broadcast axis {}, found {}", shape[axis], axis,
           view.shape[axis]);
    result.strides[axis] = 0;
  }
  return result;
}

LoopNest collapse(const Shape& shape, const std::vector<Shape>& strides) {
  LoopNest nest{{}, std::vector<Shape>(strides.size())};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    bool joins = !nest.shape.empty();
    for (size_t i = 0; joins && i < strides.size(); ++i)
      joins = nest.strides[i].back() == strides[i][axis] * shape[axis];
    if (joins) nest.shape.back() *= shape[axis];
    else nest.shape.push_back(shape[axis]);
    for (size_t i = 0; i < strides.size(); ++i) {
      if (joins) nest.strides[i].back() = strides[i][axis];
      else nest.strides[i].push_back(strides[i][axis]);
    }
  }
  if (nest.shape.empty()) {
    nest.shape.push_back(1);
    for (Shape& list : nest.strides) list.push_back(0);
  }
  return nest;
}

}  // namespace transom::cpu
