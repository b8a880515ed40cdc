// SPDX-License-Identifier: Apache-2.0
// Quantised tensors: QuantizeLinear and its relatives, products of 8-bit integers.
#include "models/onnx/import/elementwise/quantization.h"

#include <limits>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/products/convolutions.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// Scales and zero points as they stand beside x: one number, one for each place along `axis`, or one for each block of
// `block` places along it.
Tensor beside(const Call& call, const Tensor& x, const Tensor& values, int64_t axis, int64_t block) {
  if (values.size() == 1 && values.rank() <= 1) return reshape(values, {});
  if (values.rank() == 1 && block == 0) {
    call.require(values.size() == x.dim(axis), "the scales do not fit the axis");
    Shape shape(static_cast<size_t>(x.rank()), 1);
    shape[static_cast<size_t>(axis)] = values.size();
    return reshape(values, shape);
  }
  call.require(values.rank() == x.rank(), "the scales do not fit its input");
  const int64_t blocks = values.dim(axis),
                size = block > 0 ? block : (x.dim(axis) + blocks - 1) / std::max<int64_t>(blocks, 1);
  call.require(size > 0 && blocks * size >= x.dim(axis), "the blocks do not fit the axis");
  Shape spread = values.shape(), joined = values.shape();
  spread.insert(spread.begin() + axis + 1, size);
  joined[static_cast<size_t>(axis)] = blocks * size;
  return slice(reshape(broadcast_to(unsqueeze(values, axis + 1), spread), joined), axis, 0, x.dim(axis));
}

int64_t axis_of(const Call& call, const Tensor& x) {
  const int64_t axis = call.integer("axis", 1);
  return x.rank() == 0 || axis >= x.rank() || axis < -x.rank() ? 0 : call.axis(axis, x.rank());
}

struct Range {
  double low, high;
};
Range range_of(ElementType type) {
  const int bits = info(type).bits;
  const double count = static_cast<double>(int64_t{1} << bits);
  return is_unsigned(type) ? Range{0, count - 1} : Range{-count / 2, count / 2 - 1};
}

}  // namespace

Value quantised(const Tensor& scaled, const Tensor& zero_point, ElementType type) {
  if (is_floating(type)) return cast_value(value_of(scaled), type, true);
  const DType dtype = scaled.dtype();
  Tensor q = round(scaled);
  if (zero_point.defined()) q = add(q, cast(zero_point, dtype));
  const Range range = range_of(type);
  q = minimum(maximum(q, constant(range.low, dtype)), constant(range.high, dtype));
  return {type, cast(cast(q, DType::kInt32), *info(type).carrier)};
}

DynamicCodes dynamic_codes(const Tensor& x) {
  Axes axes(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  const Tensor zero = constant(0), top = constant(255);
  const Tensor low = minimum(reduce_min(x, axes), zero), high = maximum(reduce_max(x, axes), zero);
  const Tensor range = sub(high, low);
  const Tensor scale = select(equal(range, zero), constant(1), div(range, top));  // zeros alone have the scale 1
  const Tensor place = round(minimum(maximum(div(neg(low), scale), zero), top));
  const Tensor zero_point = cast(cast(place, DType::kInt32), DType::kUInt8);
  return {quantised(div(x, scale), zero_point, ElementType::kUInt8).tensor, scale, zero_point};
}

namespace {

Results quantize_linear(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = axis_of(call, x), block = call.integer("block_size", 0);
  ElementType type = ElementType::kUInt8;
  const int64_t named = call.integer("output_dtype", 0);
  if (call.has(2)) type = call.type(2);
  else if (named != 0) {
    const ElementTypeInfo* found = find_element_type(named);
    if (!found) call.invalid("output_dtype is unknown");
    type = found->type;
  }
  if (!info(type).carrier || info(type).bits > 16 || type == ElementType::kFloat8E8M0)
    call.not_supported(fmt::format("a result of {}", name_of(type)));
  const int64_t precision = call.integer("precision", 0);
  Tensor scale = beside(call, x, call.tensor(1), axis, block);
  if (is_floating(call.type(1)) && is_narrower_than_carrier(call.type(1))) call.not_supported("a scale of few bits");
  const DType dtype = DType::kFloat32;
  Tensor scaled = div(cast(x, dtype), cast(scale, dtype));
  // The quotient is of the input's type, or of that which the node names.
  if (precision == static_cast<int64_t>(ElementType::kFloat16)) scaled = cast(cast(scaled, DType::kFloat16), dtype);
  if (precision == static_cast<int64_t>(ElementType::kBFloat16)) scaled = cast(cast(scaled, DType::kBFloat16), dtype);
  const Tensor zero = call.has(2) ? beside(call, x, call.tensor(2), axis, block) : Tensor();
  return {quantised(scaled, zero, type)};
}

Results dequantize_linear(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = axis_of(call, x), block = call.integer("block_size", 0);
  ElementType type = call.type(1);
  if (const int64_t named = call.integer("output_dtype", 0); named != 0) {
    const ElementTypeInfo* found = find_element_type(named);
    if (!found || !is_floating(found->type) || is_narrower_than_carrier(found->type))
      call.not_supported("this output_dtype");
    type = found->type;
  }
  const Tensor scale = cast(beside(call, x, call.tensor(1), axis, block), DType::kFloat32);
  Tensor value = is_floating(call.type(0)) ? cast(x, DType::kFloat32) : cast(x, DType::kInt32);
  if (call.has(2)) value = sub(value, cast(beside(call, x, call.tensor(2), axis, block), value.dtype()));
  return {{type, cast(mul(cast(value, DType::kFloat32), scale), *info(type).carrier)}};
}

Results dynamic_quantize_linear(Call& call) {
  const DynamicCodes codes = dynamic_codes(call.tensor(0));
  return {{ElementType::kUInt8, codes.codes},
          {ElementType::kFloat32, codes.scale},
          {ElementType::kUInt8, codes.zero_point}};
}

// The product of integers without their zero points, in i32: the bytes are multiplied as they are, and what the zero
// points add is taken off by sums of rows and columns.
Tensor centred(const Call& call, size_t input, size_t zero_point, bool rows) {
  const Tensor x = cast(call.tensor(input), DType::kInt32);
  if (!call.has(zero_point)) return x;
  Tensor zero = cast(call.tensor(zero_point), DType::kInt32);
  if (zero.size() == 1) return sub(x, reshape(zero, {}));
  if (zero.rank() == 1) zero = unsqueeze(zero, rows ? 1 : 0);  // one for each row of A, or column of B
  return sub(x, zero);
}

Results matmul_integer(Call& call) {
  return {{ElementType::kInt32, matmul(centred(call, 0, 2, true), centred(call, 1, 3, false), call.computing())}};
}

Results qlinear_matmul(Call& call) {
  const auto scales = [&](size_t input, bool rows) {
    Tensor scale = cast(call.tensor(input), DType::kFloat32);
    if (scale.size() == 1) return reshape(scale, {});
    return scale.rank() == 1 ? unsqueeze(scale, rows ? 1 : 0) : scale;
  };
  const auto without_zero = [&](size_t input, size_t zero_point, bool rows) {
    return centred(call, input, zero_point, rows);
  };
  const Tensor product = matmul(without_zero(0, 2, true), without_zero(3, 5, false), call.computing());
  // In f64, so that the result does not depend on how a product of large sums is rounded.
  const DType dtype = DType::kFloat64;
  const Tensor scale =
      div(mul(cast(scales(1, true), dtype), cast(scales(4, false), dtype)), cast(scales(6, true), dtype));
  return {quantised(mul(cast(product, dtype), scale), scales(7, true), call.type(7))};
}

// Convolutions of integers are computed in floating numbers that hold every sum exactly: in f32 where the sums of both
// halves of the bytes stay below 2^24, as those of most networks do, else in f64, for which there are slow kernels
// alone.
Tensor integer_convolution(const Call& call, const Tensor& x, const Tensor& w, size_t weight) {
  call.require(x.rank() >= 3 && w.rank() == x.rank(), "expected x [N, C, spatial...] and a weight of the same rank");
  const Windows windows =
      Windows::of(call, x.shape(), call.integers("kernel_shape", Shape(w.shape().begin() + 2, w.shape().end())));
  const int64_t groups = call.integer("group", 1);
  call.require(groups >= 1, "group must be at least 1");
  const auto convolved = [&](const Tensor& values, DType dtype) {
    return cast(convolve(call, cast(values, dtype), cast(w, dtype), windows, groups), DType::kFloat64);
  };
  constexpr int64_t kExact = int64_t{1} << 24, kMostOfHalf = 16, kMostOfWeight = 256;
  const int64_t depth = w.dim(0) > 0 ? w.size() / w.dim(0) : 0;
  const bool bytes = info(call.type(0)).bits == 8 && info(call.type(weight)).bits == 8;
  if (!bytes || w.rank() != 3 || depth >= kExact / (kMostOfHalf * kMostOfWeight)) return convolved(x, DType::kFloat64);
  const Tensor values = cast(x, DType::kFloat32), high = floor(values * (1.0 / 16));
  return add(convolved(high, DType::kFloat32) * 16.0, convolved(sub(values, high * 16.0), DType::kFloat32));
}

Tensor a_filter(const Tensor& values, int64_t rank) {
  if (values.size() == 1) return reshape(values, {});
  Shape shape(static_cast<size_t>(rank), 1);
  shape[0] = values.size();
  return reshape(values, shape);
}

Results conv_integer(Call& call) {
  Tensor x = cast(call.tensor(0), DType::kInt32), w = cast(call.tensor(1), DType::kInt32);
  if (call.has(2)) x = sub(x, reshape(cast(call.tensor(2), DType::kInt32), {}));
  if (call.has(3)) w = sub(w, a_filter(cast(call.tensor(3), DType::kInt32), w.rank()));
  return {{ElementType::kInt32, cast(integer_convolution(call, x, w, 1), DType::kInt32)}};
}

Results qlinear_conv(Call& call) {
  const DType dtype = DType::kFloat64;
  const Tensor x = sub(cast(call.tensor(0), DType::kInt32), reshape(cast(call.tensor(2), DType::kInt32), {}));
  const Tensor w =
      sub(cast(call.tensor(3), DType::kInt32), a_filter(cast(call.tensor(5), DType::kInt32), call.tensor(3).rank()));
  Tensor y = integer_convolution(call, x, w, 3);
  const auto channels = [&](const Tensor& values) {
    if (values.size() == 1) return reshape(values, {});
    Shape shape(static_cast<size_t>(y.rank()) - 1, 1);
    shape[0] = values.size();
    return reshape(values, shape);
  };
  if (call.has(8)) y = add(y, channels(cast(call.tensor(8), dtype)));
  const Tensor scale = div(mul(cast(reshape(call.tensor(1), {}), dtype), channels(cast(call.tensor(4), dtype))),
                           cast(reshape(call.tensor(6), {}), dtype));
  return {quantised(mul(y, scale), reshape(call.tensor(7), {}), call.type(7))};
}

}  // namespace

const RegisterOperators kQuantization = {{"QuantizeLinear", quantize_linear, 10},
                                         {"DequantizeLinear", dequantize_linear, 10},
                                         {"DynamicQuantizeLinear", dynamic_quantize_linear, 11},
                                         {"MatMulInteger", matmul_integer, 10},
                                         {"QLinearMatMul", qlinear_matmul, 10},
                                         {"ConvInteger", conv_integer, 10},
                                         {"QLinearConv", qlinear_conv, 10}};

}  // namespace transom::onnx
