// SPDX-License-Identifier: Apache-2.0
// Shapes, constants, and what changes a shape without moving elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "models/onnx/import/elementwise/broadcasting.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {
namespace {

// What a file may ask for by a few numbers; more is surely an error, and would only fail later.
constexpr int64_t kMostElements = int64_t{1} << 40;

void check_size(const Call& call, const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count) || count > kMostElements)
      call.invalid(fmt::format("a result of shape {} is impossible", to_string(shape)));
}

Results constant_operator(Call& call) {
  for (const Attribute& named : call.node().attributes) {
    const Attribute* attribute = call.attribute(named.name);
    if (!attribute) continue;
    const std::string& name = named.name;
    if (name == "value" && attribute->tensor) return {call.run().constant_value(*attribute->tensor)};
    if (name == "value_int") return {{ElementType::kInt64, integer(attribute->i)}};
    if (name == "value_ints") return {{ElementType::kInt64, integers(attribute->ints)}};
    if (name == "value_float")
      return {{ElementType::kFloat32, numbers({static_cast<double>(attribute->f)}, {}, DType::kFloat32)}};
    if (name == "value_floats") {
      const std::vector<double> values(attribute->floats.begin(), attribute->floats.end());
      return {{ElementType::kFloat32, numbers(values, {static_cast<int64_t>(values.size())}, DType::kFloat32)}};
    }
    call.not_supported(fmt::format("a constant in the attribute {}", name));
  }
  call.invalid("it has no value");
}

Results constant_of_shape(Call& call) {
  const Shape shape = call.integers(0);
  check_size(call, shape);
  const Attribute* value = call.attribute("value");
  if (!value || !value->tensor) return {{ElementType::kFloat32, zeros(shape)}};
  const Value one = call.run().constant_value(*value->tensor);
  call.require(one.tensor.size() == 1, "value must have one element");
  return {{one.type, broadcast_to(reshape(one.tensor, {}), shape)}};
}

Results identity(Call& call) { return {call.has(0) ? call.value(0) : Value()}; }

Results shape_of(Call& call) {
  const Shape& shape = call.shape(0);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t start = call.integer("start", 0), end = call.integer("end", rank);
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, 0, rank);
  return {{ElementType::kInt64, integers(start < end ? Shape(shape.begin() + start, shape.begin() + end) : Shape())}};
}

Results size_of_tensor(Call& call) { return {{ElementType::kInt64, integer(call.tensor(0).size())}}; }

Results reshape_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  Shape shape = call.version() < 5 ? call.integers("shape") : call.integers(1);
  const bool zero_is_zero = call.integer("allowzero", 0) != 0;
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zero_is_zero) {
      call.require(i < x.shape().size(), "the shape keeps an extent that its input does not have");
      shape[i] = x.shape()[i];
    }
    if (shape[i] == -1) {
      call.require(!open, "the shape leaves two extents open");
      open = &shape[i];
    } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
      call.invalid(fmt::format("the shape {} is impossible", to_string(shape)));
    }
  }
  if (open) {
    call.require(known != 0 && x.size() % known == 0, "the shape does not fit its input");
    *open = x.size() / known;
  }
  return {{call.type(0), reshape(x, shape)}};
}

Results flatten_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  int64_t axis = call.integer("axis", 1);
  call.require(axis >= -x.rank() && axis <= x.rank(), "the axis is outside of its input");
  if (axis < 0) axis += x.rank();
  const Shape& shape = x.shape();
  const int64_t rows = elements(Shape(shape.begin(), shape.begin() + axis));
  return {{call.type(0), reshape(x, {rows, elements(Shape(shape.begin() + axis, shape.end()))})}};
}

Results squeeze_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  std::vector<int64_t> axes = call.version() < 13 ? call.integers("axes")
                              : call.has(1)       ? call.integers(1)
                                                  : std::vector<int64_t>();
  const bool all = call.version() < 13 ? !call.attribute("axes") : !call.has(1);
  axes = call.axes(axes, x.rank());
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named) call.require(x.dim(i) == 1, "an axis that is to go has not the extent 1");
    if (!named && !(all && x.dim(i) == 1)) shape.push_back(x.dim(i));
  }
  return {{call.type(0), reshape(x, shape)}};
}

Results unsqueeze_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  std::vector<int64_t> axes = call.version() < 13 ? call.integers("axes") : call.integers(1);
  const int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  axes = call.axes(axes, rank);
  Shape shape;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i)
    shape.push_back(std::find(axes.begin(), axes.end(), i) != axes.end() ? 1 : x.shape()[next++]);
  return {{call.type(0), reshape(x, shape)}};
}

Results expand(Call& call) {
  const Tensor& x = call.tensor(0);
  const Shape shape = broadcast_shape(call, x.shape(), call.integers(1));
  check_size(call, shape);
  return {{call.type(0), broadcast_to(x, shape)}};
}

// How many of from, from + by, ... stand before `to`; exact, also where the distance is more than an i64 holds.
uint64_t length_of_range(int64_t from, int64_t to, int64_t by) {
  if (by > 0 ? from >= to : from <= to) return 0;
  const auto word = [](int64_t number) { return static_cast<uint64_t>(number); };
  const uint64_t distance = by > 0 ? word(to) - word(from) : word(from) - word(to),
                 step = by > 0 ? word(by) : 0 - word(by);
  return (distance - 1) / step + 1;
}

Results range(Call& call) {
  const ElementType type = call.type(0);
  const Tensor start = reshape(call.tensor(0), {}), step = reshape(call.tensor(2), {});
  double count = 0;
  if (is_floating(type)) {
    const double from = call.number_of(call.tensor(0)), to = call.number_of(call.tensor(1)),
                 by = call.number_of(call.tensor(2));
    call.require(by != 0, "the step is 0");
    count = std::max(0.0, std::ceil((to - from) / by));
    call.require(!std::isnan(count), "the range has no length");
  } else {
    const int64_t from = call.integer_of(call.tensor(0)), to = call.integer_of(call.tensor(1)),
                  by = call.integer_of(call.tensor(2));
    call.require(by != 0, "the step is 0");
    count = static_cast<double>(length_of_range(from, to, by));
  }
  call.require(count < static_cast<double>(kMostElements), "the range is too long");
  const auto n = static_cast<int64_t>(count);
  const DType dtype = start.dtype();
  const bool direct = dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kFloat32;
  const Tensor index = direct ? iota({n}, 0, dtype) : cast(iota({n}, 0), dtype);
  return {{type, add(start, mul(index, step))}};
}

Results eye_like(Call& call) {
  const Shape& shape = call.shape(0);
  call.require(shape.size() == 2, "expected a matrix");
  const Attribute* named = call.attribute("dtype");
  const ElementTypeInfo* type = find_element_type(named ? named->i : static_cast<int64_t>(call.type(0)));
  if (!type || !type->carrier) call.not_supported("this element type");
  const Tensor on = equal(add(iota(shape, 0), integer(call.integer("k", 0))), iota(shape, 1));
  return {{type->type, cast(on, *type->carrier)}};
}

}  // namespace

const RegisterOperators kShapes = {{"Constant", constant_operator},
                                   {"ConstantOfShape", constant_of_shape, 9},
                                   {"Identity", identity},
                                   {"Shape", shape_of},
                                   {"Size", size_of_tensor},
                                   {"Reshape", reshape_operator},
                                   {"Flatten", flatten_operator},
                                   {"Squeeze", squeeze_operator},
                                   {"Unsqueeze", unsqueeze_operator},
                                   {"Expand", expand, 8},
                                   {"Range", range, 11},
                                   {"EyeLike", eye_like, 9}};

}  // namespace transom::onnx
