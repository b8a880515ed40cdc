// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/rules.h"

#include <algorithm>
#include <limits>

#include "base/numbers/half.h"
#include "graph/ops/computing.h"

namespace transom {

void expect_inputs(const Inference& in, size_t count) {
  check(in, in.inputs.size() == count, "expected {} inputs, found {}", count, in.inputs.size());
}

void expect_axis(const Inference& in, int64_t axis, int64_t rank) {
  check(in, axis >= 0 && axis < rank, "axis {} does not fit rank {}", axis, rank);
}

void expect_rank_axes(const Inference& in, const Axes& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    expect_axis(in, axes[i], rank);
    check(in, i == 0 || axes[i - 1] < axes[i], "axes [{}] must rise", fmt::join(axes, ", "));
  }
}

void expect_same_shape(const Inference& in, size_t i, size_t j) {
  check(in, in.shape(i) == in.shape(j), "expected equal shapes, found {} and {}", in.shape(i), in.shape(j));
}

void expect_same_types(const Inference& in, size_t i, size_t j) {
  check(in, in.dtype(i) == in.dtype(j), "expected equal element types, found {} and {}", in.inputs[i], in.inputs[j]);
}

void expect_floating(const Inference& in, size_t i) {
  check(in, is_floating(in.dtype(i)), "expected a floating type, found {}", in.inputs[i]);
}

void expect_integer(const Inference& in, size_t i) {
  check(in, is_integer(in.dtype(i)), "expected an integer type, found {}", in.inputs[i]);
}

DType expect_dtype(const Inference& in) {
  const int64_t number = in.attributes.get_int("dtype");
  check(in, number >= 0 && number <= static_cast<int64_t>(DType::kFloat64), "dtype {} does not exist", number);
  return static_cast<DType>(number);
}

void expect_between(const Inference& in, const Axes& numbers, int64_t low, int64_t high, std::string_view what) {
  for (const int64_t number : numbers)
    check(in, number >= low && number <= high, "{} {} is not in [{}, {}]", what, number, low, high);
}

int64_t normal_axis(int64_t axis, int64_t rank, std::string_view operation) {
  const int64_t result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank) {
    fail("{}{}: axis {} does not fit a tensor of rank {}", scope_prefix(), operation, axis, rank);
  }
  return result;
}

Axes normal_axes(const Axes& axes, int64_t rank, std::string_view operation) {
  Axes result;
  for (const int64_t axis : axes) result.push_back(normal_axis(axis, rank, operation));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Tensor widened(const Tensor& x) {
  return x.dtype() == DType::kBFloat16 || x.dtype() == DType::kFloat16 ? cast(x, DType::kFloat32) : x;
}

Axes strides_of(const Shape& shape) {
  Axes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool holds(const Axes& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

Shape without_axes(const Shape& shape, const Axes& axes) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!holds(axes, static_cast<int64_t>(i))) result.push_back(shape[i]);
  return result;
}

Array::Array(Type t) : type(std::move(t)) {
  const auto count = static_cast<size_t>(elements(type.shape));
  if (floating()) real.resize(count);
  else integer.resize(count);
}

double Array::get(int64_t i) const {
  return floating() ? real[static_cast<size_t>(i)] : static_cast<double>(integer[static_cast<size_t>(i)]);
}

void Array::set(int64_t i, double value) {
  if (floating()) real[static_cast<size_t>(i)] = value;
  else if (std::isnan(value)) integer[static_cast<size_t>(i)] = 0;
  else if (value >= 0x1p63) integer[static_cast<size_t>(i)] = std::numeric_limits<int64_t>::max();
  else if (value < -0x1p63) integer[static_cast<size_t>(i)] = std::numeric_limits<int64_t>::min();
  else integer[static_cast<size_t>(i)] = static_cast<int64_t>(value);
}

std::vector<Tensor> autocast_inputs(const Operation& operation, std::vector<Tensor> inputs,
                                    const Computing& computing) {
  for (Tensor& input : inputs) {
    if (operation.autocast == AutocastClass::kLow) input = autocast_low(input, computing);
    if (operation.autocast == AutocastClass::kFull) input = autocast_full(input, computing);
  }
  return inputs;
}

void round_to_dtype(Array& array) {
  switch (array.type.dtype) {
    case DType::kFloat64:
      return;
    case DType::kFloat32:
      for (double& x : array.real) x = static_cast<float>(x);
      return;
    // Through float twice rounded in theory; float keeps 24 bits, enough that the second rounding is the first's but
    // for ties that a double hides below 2^-24, which no operation here can tell.
    case DType::kBFloat16:
      for (double& x : array.real) x = static_cast<float>(BFloat16(static_cast<float>(x)));
      return;
    case DType::kFloat16:
      for (double& x : array.real) x = static_cast<float>(Float16(static_cast<float>(x)));
      return;
    case DType::kBool:
      for (int64_t& x : array.integer) x = x != 0;
      return;
    case DType::kUInt8:
      for (int64_t& x : array.integer) x = static_cast<uint8_t>(x);
      return;
    case DType::kInt8:
      for (int64_t& x : array.integer) x = static_cast<int8_t>(x);
      return;
    case DType::kInt32:
      for (int64_t& x : array.integer) x = static_cast<int32_t>(x);
      return;
    case DType::kUInt32:
      for (int64_t& x : array.integer) x = static_cast<uint32_t>(x);
      return;
    case DType::kInt64:
      return;
  }
}

Tensor sum_to_shape(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int64_t extra = x.rank() - static_cast<int64_t>(shape.size());
  Axes axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    if (axis < extra || (shape[static_cast<size_t>(axis - extra)] == 1 && x.dim(axis) != 1)) axes.push_back(axis);
  return reshape(reduce_sum(x, axes), shape);
}

}  // namespace transom
