// SPDX-License-Identifier: Apache-2.0
// Convolution and its two gradients. Each is linear in both inputs, and the gradients of any one are the other two.
#include <algorithm>

#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

struct Geometry {
  Axes strides, low, high, dilations;
  int64_t groups;

  explicit Geometry(const Attributes& attributes)
      : strides(attributes.get_ints("strides")),
        low(attributes.get_ints("low")),
        high(attributes.get_ints("high")),
        dilations(attributes.get_ints("dilations")),
        groups(attributes.get_int("groups")) {}

  // The spatial extents of the output for an input x and a window w (both with two leading axes).
  Shape output(const Shape& x, const Shape& w) const {
    Shape shape{x[0], w[0]};
    for (size_t i = 0; i < strides.size(); ++i)
      shape.push_back((x[i + 2] + low[i] + high[i] - dilations[i] * (w[i + 2] - 1) - 1) / strides[i] + 1);
    return shape;
  }

  // visit(place in x, place in w, place in y) for every product of the convolution.
  template <typename Visit>
  void for_each_product(const Shape& x, const Shape& w, const Shape& y, Visit&& visit) const {
    const Axes xs = strides_of(x), ws = strides_of(w), ys = strides_of(y);
    const int64_t group_outputs = y[1] / groups;
    for_each_index(y, [&](const Axes& at) {
      Shape window(w.begin() + 1, w.end());
      const int64_t first_channel = at[1] / group_outputs * w[1];
      for_each_index(window, [&](const Axes& tap) {
        int64_t place = at[0] * xs[0] + (first_channel + tap[0]) * xs[1];
        for (size_t i = 0; i < strides.size(); ++i) {
          const int64_t position = at[i + 2] * strides[i] - low[i] + tap[i + 1] * dilations[i];
          if (position < 0 || position >= x[i + 2]) return;
          place += position * xs[i + 2];
        }
        int64_t weight = at[1] * ws[0];
        for (size_t i = 0; i < tap.size(); ++i) weight += tap[i] * ws[i + 1];
        visit(static_cast<size_t>(place), static_cast<size_t>(weight), static_cast<size_t>(offset_of(at, ys)));
      });
    });
  }
};

void expect_convolution(const Inference& in, const Shape& x, const Shape& w) {
  const Geometry g(in.attributes);
  const size_t spatial = g.strides.size();
  check(in,
        spatial >= 1 && spatial <= 3 && g.low.size() == spatial && g.high.size() == spatial &&
            g.dilations.size() == spatial,
        "expected one stride, padding and dilation for each of 1 to 3 spatial axes");
  check(in, x.size() == spatial + 2 && w.size() == spatial + 2,
        "expected x [N, C, spatial] and a weight [O, C / groups, window] with {} spatial axes, found {} and {}",
        spatial, x, w);
  const int64_t far = int64_t{1} << 30;
  for (const Shape& extents : {x, w}) expect_between(in, extents, 0, far, "extent");
  for (const Axes& padding : {g.low, g.high}) expect_between(in, padding, 0, far, "padding");
  for (const Axes& steps : {g.strides, g.dilations}) expect_between(in, steps, 1, far, "stride or dilation");
  expect_between(in, {g.groups}, 1, far, "the number of groups");
  check(in, x[1] == w[1] * g.groups && w[0] % g.groups == 0, "{} groups do not fit x of {} and a weight of {}",
        g.groups, x, w);
  for (size_t i = 0; i < spatial; ++i)
    check(in, w[i + 2] >= 1 && x[i + 2] + g.low[i] + g.high[i] >= g.dilations[i] * (w[i + 2] - 1) + 1,
          "the window {} is empty or larger than the padded input {}", w, x);
}

Tensor input_gradient(const Tensor& dy, const Tensor& w, const Attributes& attributes, const Shape& shape);
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const Attributes& attributes, const Shape& shape);

Attributes without_shape(const Attributes& attributes) {
  Attributes result;
  for (const auto& [name, value] : attributes.items())
    if (name != "shape") result.set(name, value);
  return result;
}

Attributes geometry(Axes strides, Axes low, Axes high, Axes dilations, int64_t groups) {
  return {{"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}, {"groups", groups}};
}

struct Example {
  Shape x, w;
  Attributes attributes;
};
std::vector<Example> examples() {
  return {{{2, 3, 7}, {4, 3, 3}, geometry({1}, {1}, {1}, {1}, 1)},
          {{1, 4, 6, 5}, {6, 2, 3, 2}, geometry({2, 1}, {1, 0}, {0, 1}, {1, 2}, 2)},
          {{2, 4, 5, 5}, {4, 1, 3, 3}, geometry({1, 1}, {1, 1}, {1, 1}, {1, 1}, 4)},
          {{1, 3, 8, 8}, {5, 3, 4, 4}, geometry({4, 4}, {0, 0}, {0, 0}, {1, 1}, 1)}};
}

const Operation kConvolution = {
    .name = "convolution",
    .documentation =
        "x [N, C, spatial...] by windows w [O, C / groups, window...]: cross-correlation with zero padding.",
    .category = Category::kProducts,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_convolution,
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_same_types(in, 0, 1);
      expect_floating(in, 0);
      expect_convolution(in, in.shape(0), in.shape(1));
      return {{in.dtype(0), Geometry(in.attributes).output(in.shape(0), in.shape(1))}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          std::fill(out[0].real.begin(), out[0].real.end(), 0);
          Geometry(attributes)
              .for_each_product(in[0].type.shape, in[1].type.shape, out[0].type.shape,
                                [&](size_t x, size_t w, size_t y) { out[0].real[y] += in[0].real[x] * in[1].real[w]; });
        },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      const Tensor &x = request.inputs[0], &w = request.inputs[1], &dy = request.cotangents[0];
      return {request.wanted(0) ? input_gradient(dy, w, request.attributes, x.shape()) : Tensor(),
              request.wanted(1) ? weight_gradient(x, dy, request.attributes, w.shape()) : Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const Example& e : examples()) samples.push_back({{{dtype, e.x}, {dtype, e.w}}, e.attributes, -1, 1});
      return samples;
    }};

const Operation kInputGradient = {
    .name = "convolution_input_gradient",
    .documentation = "(dy, w): the gradient of a convolution for its input, which has `shape`.",
    .category = Category::kProducts,
    .flops = flops_of_input_gradient,
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_same_types(in, 0, 1);
      const Shape& shape = in.attributes.get_ints("shape");
      expect_convolution(in, shape, in.shape(1));
      check(in, Geometry(in.attributes).output(shape, in.shape(1)) == in.shape(0), "dy of {} does not fit x of {}",
            in.shape(0), shape);
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          std::fill(out[0].real.begin(), out[0].real.end(), 0);
          Geometry(attributes)
              .for_each_product(out[0].type.shape, in[1].type.shape, in[0].type.shape,
                                [&](size_t x, size_t w, size_t y) { out[0].real[x] += in[0].real[y] * in[1].real[w]; });
        },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      const Tensor &dy = request.inputs[0], &w = request.inputs[1], &dx = request.cotangents[0];
      return {request.wanted(0) ? make_tensor(kConvolution, {dx, w}, without_shape(request.attributes)) : Tensor(),
              request.wanted(1) ? weight_gradient(dx, dy, request.attributes, w.shape()) : Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const Example& e : examples()) {
        Attributes attributes = e.attributes;
        attributes.set("shape", e.x);
        samples.push_back(
            {{{DType::kFloat32, Geometry(e.attributes).output(e.x, e.w)}, {DType::kFloat32, e.w}}, attributes, -1, 1});
      }
      return samples;
    }};

const Operation kWeightGradient = {
    .name = "convolution_weight_gradient",
    .documentation = "(x, dy): the gradient of a convolution for its windows, which have `shape`.",
    .category = Category::kProducts,
    .flops = flops_of_weight_gradient,
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_same_types(in, 0, 1);
      const Shape& shape = in.attributes.get_ints("shape");
      expect_convolution(in, in.shape(0), shape);
      check(in, Geometry(in.attributes).output(in.shape(0), shape) == in.shape(1), "dy of {} does not fit x of {}",
            in.shape(1), in.shape(0));
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          std::fill(out[0].real.begin(), out[0].real.end(), 0);
          Geometry(attributes)
              .for_each_product(in[0].type.shape, out[0].type.shape, in[1].type.shape,
                                [&](size_t x, size_t w, size_t y) { out[0].real[w] += in[0].real[x] * in[1].real[y]; });
        },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      const Tensor &x = request.inputs[0], &dy = request.inputs[1], &dw = request.cotangents[0];
      return {request.wanted(0) ? input_gradient(dy, dw, request.attributes, x.shape()) : Tensor(),
              request.wanted(1) ? make_tensor(kConvolution, {x, dw}, without_shape(request.attributes)) : Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const Example& e : examples()) {
        Attributes attributes = e.attributes;
        attributes.set("shape", e.w);
        samples.push_back(
            {{{DType::kFloat32, e.x}, {DType::kFloat32, Geometry(e.attributes).output(e.x, e.w)}}, attributes, -1, 1});
      }
      return samples;
    }};

Tensor input_gradient(const Tensor& dy, const Tensor& w, const Attributes& attributes, const Shape& shape) {
  Attributes with_shape = attributes;
  with_shape.set("shape", shape);
  return make_tensor(kInputGradient, {dy, w}, std::move(with_shape));
}
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const Attributes& attributes, const Shape& shape) {
  Attributes with_shape = attributes;
  with_shape.set("shape", shape);
  return make_tensor(kWeightGradient, {x, dy}, std::move(with_shape));
}

}  // namespace

const RegisterOperations kRegisteredConvolution{&kConvolution, &kInputGradient, &kWeightGradient};

namespace op {
const Operation &convolution = kConvolution, &convolution_input_gradient = kInputGradient,
                &convolution_weight_gradient = kWeightGradient;
}  // namespace op

Tensor convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& options,
                   const Computing& computing) {
  const auto spatial = static_cast<size_t>(std::max<int64_t>(x.rank() - 2, 1));
  const auto filled = [&](const Axes& given, int64_t otherwise) {
    return given.empty() ? Axes(spatial, otherwise) : given;
  };
  std::vector<Tensor> inputs = autocast_inputs(kConvolution, {x, weight}, computing);
  Attributes attributes = geometry(filled(options.strides, 1), filled(options.low, 0), filled(options.high, 0),
                                   filled(options.dilations, 1), options.groups);
  allow_tf32(attributes, inputs[0].dtype(), computing);
  keep_rows_apart(attributes, computing);
  return make_tensor(kConvolution, std::move(inputs), std::move(attributes));
}

}  // namespace transom
