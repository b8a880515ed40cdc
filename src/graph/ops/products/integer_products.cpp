// SPDX-License-Identifier: Apache-2.0
// Sums of products of 8-bit integers are exact on every device: they are computed in integers, and rounded once to f32.
#include "graph/ops/products/integer_products.h"

#include "base/error.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

constexpr int64_t kLeastDepth = 64;  // of a convolution that is rounded as it comes

// x u8 or i8, w i8, and a zero point that x can have.
void expect_bytes(const Inference& in, int64_t depth) {
  expect_inputs(in, 2);
  check(in, in.dtype(0) == DType::kUInt8 || in.dtype(0) == DType::kInt8, "expected x of u8 or i8, found {}",
        in.inputs[0]);
  check(in, in.dtype(1) == DType::kInt8, "expected a weight of i8, found {}", in.inputs[1]);
  const int64_t zero = in.attributes.get_int("zero_point"), low = in.dtype(0) == DType::kUInt8 ? 0 : -128;
  check(in, zero >= low && zero <= low + 255, "expected a zero_point from {} to {}, found {}", low, low + 255, zero);
  check(in, depth <= kMostIntegerDepth, "expected sums of at most {} products, found {}", kMostIntegerDepth, depth);
}

int64_t depth_of(const Shape& weight) { return elements(Shape(weight.begin() + 1, weight.end())); }

// x less its zero point, in `wide`.
Tensor centred(const Tensor& x, const Attributes& attributes, DType wide) {
  const auto zero = static_cast<double>(attributes.get_int("zero_point"));
  const Tensor numbers = cast(x, wide);
  return zero == 0 ? numbers : numbers - constant(zero, wide);
}

// Integer inputs are drawn from 0 to 255, as bytes: those of i8 wrap to negative ones.
Sample sample_of(DType x_type, Shape x, Shape w, Attributes attributes) {
  Sample sample{{{x_type, std::move(x)}, {DType::kInt8, std::move(w)}}, std::move(attributes), -1, 1};
  sample.index_limit = 127;
  return sample;
}

const Operation kIntegerLinear = {
    .name = "integer_linear",
    .kind = OperationKind::kComposite,
    .documentation =
        "x u8 or i8 [..., K], w i8 [N, K]: f32 [..., N], the sums of (x - `zero_point`) w, each rounded once.",
    .stops_gradient = true,
    .category = Category::kProducts,
    .flops =
        [](const CostRequest& cost) {
          return 2.0 * static_cast<double>(cost.inputs[1].shape[1] * elements(cost.outputs[0].shape));
        },
    .error = kRoundedError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == 2 && in.rank(0) >= 1 && in.rank(1) == 2, "expected x of some axes and w of two");
      check(in, in.shape(0).back() == in.shape(1)[1], "x of {} and a weight of {} do not fit", in.shape(0),
            in.shape(1));
      expect_bytes(in, in.shape(1)[1]);
      Shape shape = in.shape(0);
      shape.back() = in.shape(1)[0];
      return {{DType::kFloat32, shape}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const Tensor sums = make_tensor(find_operation("dot_general"),
                                      {centred(in[0], attributes, DType::kInt32), cast(in[1], DType::kInt32)},
                                      {{"x_batch", Axes{}},
                                       {"y_batch", Axes{}},
                                       {"x_contract", Axes{in[0].rank() - 1}},
                                       {"y_contract", Axes{1}},
                                       {"dtype", static_cast<int64_t>(DType::kInt32)}});
      return {cast(sums, DType::kFloat32)};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType type : {DType::kUInt8, DType::kInt8})
        for (const int64_t zero : {0, 3, 100}) {
          const Attributes attributes{{"zero_point", zero}};
          samples.push_back(sample_of(type, {2, 5, 8}, {3, 8}, attributes));
          samples.push_back(sample_of(type, {33, 65}, {17, 65}, attributes));
          samples.push_back(sample_of(type, {1, 19}, {48, 19}, attributes));
          samples.push_back(sample_of(type, {300, 96}, {200, 96}, attributes));
        }
      return samples;
    }};

const Operation kIntegerConvolution = {
    .name = "integer_convolution",
    .kind = OperationKind::kComposite,
    .documentation =
        "x u8 or i8 [N, C, spatial...] by windows w i8 [O, C / groups, window...]: f32, the sums of (x - `zero_point`) "
        "w, each rounded once; what is padded adds nothing.",
    .stops_gradient = true,
    .category = Category::kProducts,
    .flops = flops_of_convolution,
    .error = kRoundedError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == 2 && in.rank(1) >= 3, "expected x and a weight [O, C / groups, window...]");
      expect_bytes(in, depth_of(in.shape(1)));
      std::vector<Type> types(in.inputs.begin(), in.inputs.end());
      for (Type& type : types) type.dtype = DType::kFloat32;
      return op::convolution.infer({in.operation, types, in.attributes});
    },
    // In f64, which holds every sum exactly: not all devices convolve integers.
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      Attributes geometry;
      for (const auto& [name, value] : attributes.items())
        if (name != "zero_point") geometry.set(name, value);
      const Tensor sums = make_tensor(
          op::convolution, {centred(in[0], attributes, DType::kFloat64), cast(in[1], DType::kFloat64)}, geometry);
      return {cast(sums, DType::kFloat32)};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const Sample& each : op::convolution.samples()) {
        if (each.inputs[0].dtype != DType::kFloat32) continue;
        for (const DType type : {DType::kUInt8, DType::kInt8})
          for (const int64_t zero : {0, 5}) {
            Attributes attributes = each.attributes;
            attributes.set("zero_point", zero);
            samples.push_back(sample_of(type, each.inputs[0].shape, each.inputs[1].shape, attributes));
          }
      }
      return samples;
    }};

// A vector [O] beside images [N, O, spatial...].
Tensor beside_images(const Tensor& vector, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[1] = vector.size();
  return reshape(vector, shape);
}

// x's codes, where it is not codes already, and the type of what comes of them.
Tensor as_codes(const Tensor& x, const IntegerWeight& weight) {
  return is_floating(x.dtype()) ? static_codes(x, weight) : x;
}
DType type_of_result(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::kFloat32; }

}  // namespace

const RegisterOperations kRegisteredIntegerProducts{&kIntegerLinear, &kIntegerConvolution};

namespace op {
const Operation& integer_linear = kIntegerLinear;
const Operation& integer_convolution = kIntegerConvolution;
}  // namespace op

Tensor integer_linear(const Tensor& x, const Tensor& weight, int64_t zero_point) {
  return make_tensor(kIntegerLinear, {x, weight}, {{"zero_point", zero_point}});
}

Tensor integer_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options,
                           int64_t zero_point) {
  const auto spatial = static_cast<size_t>(std::max<int64_t>(x.rank() - 2, 1));
  const auto filled = [&](const Axes& given, int64_t otherwise) {
    return given.empty() ? Axes(spatial, otherwise) : given;
  };
  return make_tensor(kIntegerConvolution, {x, weight},
                     {{"strides", filled(options.strides, 1)},
                      {"low", filled(options.low, 0)},
                      {"high", filled(options.high, 0)},
                      {"dilations", filled(options.dilations, 1)},
                      {"groups", options.groups},
                      {"zero_point", zero_point}});
}

Tensor static_codes(const Tensor& x, const IntegerWeight& weight) {
  const bool is_unsigned = weight.input_type == DType::kUInt8;
  Tensor steps = cast(x, DType::kFloat32) * weight.input_inverse;
  if (weight.zero_point != 0) steps = steps + static_cast<double>(weight.zero_point);
  const Tensor low = constant(is_unsigned ? 0 : -128, DType::kFloat32),
               high = constant(is_unsigned ? 255 : 127, DType::kFloat32);
  return cast(minimum(maximum(round(steps), low), high), weight.input_type);
}

Tensor static_numbers(const Tensor& codes, const IntegerWeight& weight) {
  Tensor steps = cast(codes, DType::kFloat32);
  if (weight.zero_point != 0) steps = steps - static_cast<double>(weight.zero_point);
  return steps * weight.input_scale;
}

Tensor quantized_linear(const Tensor& x, const IntegerWeight& weight, const Tensor& bias) {
  const Tensor sums = integer_linear(as_codes(x, weight), weight.codes, weight.zero_point);
  const Tensor y = sums * (weight.scales * weight.input_scale);
  return cast(bias.defined() ? y + cast(bias, DType::kFloat32) : y, type_of_result(x));
}

Tensor quantized_convolution(const Tensor& x, const IntegerWeight& weight, const ConvolutionOptions& options) {
  const Tensor sums = integer_convolution(as_codes(x, weight), weight.codes, options, weight.zero_point);
  return cast(sums * beside_images(weight.scales * weight.input_scale, x.rank()), type_of_result(x));
}

Tensor quantized_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options) {
  constexpr double kLargest = 127;
  // By the largest magnitude along all axes but the first; zeros have the scale 0.
  const auto rounded = [](const Tensor& values, Tensor& scale) {
    Axes axes(static_cast<size_t>(values.rank()) - 1);
    std::iota(axes.begin(), axes.end(), int64_t{1});
    const Tensor wide = cast(values, DType::kFloat32);
    scale = reduce_max(abs(wide), axes, true) * (1 / kLargest);
    const Tensor none = equal(scale, constant(0, DType::kFloat32));
    const Tensor inverse = 1.0 / select(none, full(scale.shape(), 1, DType::kFloat32), scale);
    return cast(round(wide * inverse), DType::kInt8);
  };
  Tensor x_scale, w_scale;
  const Tensor w = rounded(weight, w_scale), q = rounded(x, x_scale);
  const Tensor scales = beside_images(reshape(w_scale, {weight.dim(0)}), x.rank()) * x_scale;
  return cast(integer_convolution(q, w, options, 0) * scales, x.dtype());
}

bool quantizes_convolution(const Tensor& weight) {
  const int64_t depth = weight.rank() >= 3 ? depth_of(weight.shape()) : 0;
  return depth >= kLeastDepth && depth <= kMostIntegerDepth;
}

Tensor dequantised(const IntegerWeight& weight) {
  Shape shape(static_cast<size_t>(weight.codes.rank()), 1);
  shape[0] = weight.codes.dim(0);
  return cast(weight.codes, DType::kFloat32) * reshape(weight.scales, shape);
}

}  // namespace transom
