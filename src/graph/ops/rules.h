// SPDX-License-Identifier: Apache-2.0
// What the op records share: checks of shapes and attributes, samples, and loops of the float64 reference.
#pragma once

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "graph/ir/node.h"
#include "graph/ops/costs.h"
#include "transom/ops.h"

namespace transom {

// Checks that name the operation.
void expect_rank_axes(const Inference& in, const Axes& axes, int64_t rank);  // each in [0, rank), rising
void expect_axis(const Inference& in, int64_t axis, int64_t rank);
void expect_same_types(const Inference& in, size_t i, size_t j);
void expect_same_shape(const Inference& in, size_t i, size_t j);
void expect_floating(const Inference& in, size_t i);
void expect_integer(const Inference& in, size_t i);
void expect_inputs(const Inference& in, size_t count);
DType expect_dtype(const Inference& in);  // the attribute "dtype", which must name an element type
// Each in [low, high]: keeps what is computed from attributes inside int64.
void expect_between(const Inference& in, const Axes& numbers, int64_t low, int64_t high, std::string_view what);

// Axis numbers of a user's call: negative ones counted from the end, checked, and (for lists) sorted.
int64_t normal_axis(int64_t axis, int64_t rank, std::string_view operation);
Axes normal_axes(const Axes& axes, int64_t rank, std::string_view operation);

// x in f32 where it is bf16 or f16, otherwise x itself.
Tensor widened(const Tensor& x);

// Row-major strides of a shape, in elements.
Axes strides_of(const Shape& shape);
Shape without_axes(const Shape& shape, const Axes& axes);
bool holds(const Axes& axes, int64_t axis);

// Calls body(index) for every index vector of the shape, in row-major order.
template <typename Body>
void for_each_index(const Shape& shape, Body&& body) {
  if (elements(shape) == 0) return;
  Axes index(shape.size(), 0);
  while (true) {
    body(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// The place of an index vector in a dense tensor with these strides.
inline int64_t offset_of(const Axes& index, const Axes& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

// Integers wrap around, as on every device.
inline int64_t wrapping_add(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
inline int64_t wrapping_multiply(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}

// Rounds the values to what the array's element type can hold.
void round_to_dtype(Array& array);

// Sums to the shape that was broadcast to the present one: the gradient of broadcasting.
Tensor sum_to_shape(const Tensor& x, const Shape& shape);

// Adds a file's records to all_operations(). Each file of records ends with one.
struct RegisterOperations {
  template <typename... Records>
  explicit RegisterOperations(const Records*... records) {
    (add(records), ...);
  }

 private:
  static void add(const Operation* record);
};

// The inputs as this operation computes with them: see AutocastClass.
std::vector<Tensor> autocast_inputs(const Operation& operation, std::vector<Tensor> inputs, const Computing& computing);

}  // namespace transom
