// SPDX-License-Identifier: Apache-2.0
// Softmax and layer norm over the last axis, with their gradients: composites that a device may run in one pass a row.
#include "graph/ops/function_records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

std::vector<Type> infer_rows(const Inference& in) {
  expect_floating(in, 0);
  check(in, in.rank(0) >= 1, "expected at least one axis");
  return {in.inputs[0]};
}
std::vector<Type> infer_softmax(const Inference& in) {
  expect_inputs(in, 1);
  return infer_rows(in);
}
std::vector<Type> infer_softmax_gradient(const Inference& in) {
  expect_inputs(in, 2);
  expect_same_types(in, 0, 1);
  expect_same_shape(in, 0, 1);
  return infer_rows(in);
}

template <size_t inputs>
std::vector<Sample> row_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const Shape& shape : {Shape{7}, Shape{3, 1}, Shape{5, 33}, Shape{2, 3, 70}, Shape{0, 4}})
      samples.push_back({std::vector<Type>(inputs, Type{dtype, shape}), {}, 0.01, 0.9});
  return samples;
}

const Operation kSoftmaxGradient = {.name = "softmax_gradient",
                                    .kind = OperationKind::kComposite,
                                    .documentation = "(y, dy): the gradient of y = softmax(x) for x.",
                                    .row_wise = RowWise::kEachRow,
                                    .category = Category::kRows,
                                    .infer = infer_softmax_gradient,
                                    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                                      const Tensor y = widened(in[0]), dy = widened(in[1]);
                                      return {cast(y * (dy - reduce_sum(y * dy, {-1}, true)), in[0].dtype())};
                                    },
                                    .samples = row_samples<2>};

const Operation kSoftmax = {.name = "softmax",
                            .kind = OperationKind::kComposite,
                            .documentation = "e^x over its sum along the last axis.",
                            .row_wise = RowWise::kEachRow,
                            .category = Category::kRows,
                            .autocast = AutocastClass::kFull,
                            .infer = infer_softmax,
                            .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                              const Tensor x = widened(in[0]);
                              const Tensor e = exp(x - reduce_max(x, {-1}, true));
                              return {cast(e / reduce_sum(e, {-1}, true), in[0].dtype())};
                            },
                            .gradient = [](const GradientRequest& request) -> Tensors {
                              return {make_tensor(kSoftmaxGradient, {request.outputs[0], request.cotangents[0]})};
                            },
                            .samples = row_samples<1>};

const Operation kLogSoftmaxGradient = {.name = "log_softmax_gradient",
                                       .kind = OperationKind::kComposite,
                                       .documentation = "(y, dy): the gradient of y = log_softmax(x) for x.",
                                       .row_wise = RowWise::kEachRow,
                                       .category = Category::kRows,
                                       .infer = infer_softmax_gradient,
                                       .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                                         const Tensor y = widened(in[0]), dy = widened(in[1]);
                                         return {cast(dy - exp(y) * reduce_sum(dy, {-1}, true), in[0].dtype())};
                                       },
                                       .samples = row_samples<2>};

const Operation kLogSoftmax = {.name = "log_softmax",
                               .kind = OperationKind::kComposite,
                               .documentation = "x minus the logarithm of the sum of e^x along the last axis.",
                               .row_wise = RowWise::kEachRow,
                               .category = Category::kRows,
                               .autocast = AutocastClass::kFull,
                               .infer = infer_softmax,
                               .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
                                 const Tensor x = widened(in[0]);
                                 const Tensor centred = x - reduce_max(x, {-1}, true);
                                 return {cast(centred - log(reduce_sum(exp(centred), {-1}, true)), in[0].dtype())};
                               },
                               .gradient = [](const GradientRequest& request) -> Tensors {
                                 return {make_tensor(kLogSoftmaxGradient, {request.outputs[0], request.cotangents[0]})};
                               },
                               .samples = row_samples<1>};

// ---- layer norm (Ba, Kiros, Hinton, 2016)

struct Normalized {
  Tensor centred_over_deviation;  // (x - mean) / sqrt(variance + epsilon)
  Tensor inverse_deviation;       // [..., 1]
};

Normalized normalize(const Tensor& x, double epsilon) {
  const Tensor centred = x - mean(x, {-1}, true);
  const Tensor inverse = rsqrt(mean(centred * centred, {-1}, true) + epsilon);
  return {centred * inverse, inverse};
}

void expect_last_axis(const Inference& in, size_t i) {
  check(in, in.rank(0) >= 1 && in.shape(i) == Shape{in.shape(0).back()}, "expected [{}] beside x of {}, found {}",
        in.rank(0) ? in.shape(0).back() : 0, in.shape(0), in.shape(i));
  expect_same_types(in, 0, i);
}

const Operation kLayerNormGradient = {
    .name = "layer_norm_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(x, scale, dy): the gradients of layer_norm for (x, scale, bias).",
    .row_wise = RowWise::kAndColumnSums,
    .category = Category::kRows,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      infer_rows(in);
      expect_last_axis(in, 1);
      expect_same_shape(in, 0, 2);
      return {in.inputs[0], in.inputs[1], in.inputs[1]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor x = widened(in[0]), scale = widened(in[1]), dy = widened(in[2]);
      const auto [normal, inverse] = normalize(x, attributes.get_float("epsilon"));
      const Tensor g = dy * scale;
      const Tensor dx = inverse * (g - mean(g, {-1}, true) - normal * mean(g * normal, {-1}, true));
      Axes rows(static_cast<size_t>(x.rank()) - 1);
      std::iota(rows.begin(), rows.end(), int64_t{0});
      return {cast(dx, in[0].dtype()), cast(reduce_sum(dy * normal, rows), in[1].dtype()),
              cast(reduce_sum(dy, rows), in[1].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const Shape& shape : {Shape{7}, Shape{5, 33}, Shape{2, 3, 70}})
          samples.push_back({{{dtype, shape}, {dtype, {shape.back()}}, {dtype, shape}}, {{"epsilon", 1e-5}}});
      return samples;
    }};

const Operation kLayerNorm = {
    .name = "layer_norm",
    .kind = OperationKind::kComposite,
    .documentation = "(x, scale, bias): (x - mean) / sqrt(variance + `epsilon`) * scale + bias along the last axis.",
    .row_wise = RowWise::kEachRow,
    .category = Category::kRows,
    .autocast = AutocastClass::kFull,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      infer_rows(in);
      expect_last_axis(in, 1);
      expect_last_axis(in, 2);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor normal = normalize(widened(in[0]), attributes.get_float("epsilon")).centred_over_deviation;
      return {cast(normal * widened(in[1]) + widened(in[2]), in[0].dtype())};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      return make_tensors(kLayerNormGradient, {request.inputs[0], request.inputs[1], request.cotangents[0]},
                          request.attributes);
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const Shape& shape : {Shape{7}, Shape{5, 33}, Shape{2, 3, 70}, Shape{0, 4}})
          samples.push_back({{{dtype, shape}, {dtype, {shape.back()}}, {dtype, {shape.back()}}}, {{"epsilon", 1e-5}}});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredNormalization{&kSoftmax,   &kSoftmaxGradient,  &kLogSoftmax, &kLogSoftmaxGradient,
                                                  &kLayerNorm, &kLayerNormGradient};

namespace op {
const Operation &softmax = kSoftmax, &layer_norm = kLayerNorm;
}  // namespace op

Tensor softmax(const Tensor& x, const Computing& computing) {
  return make_tensor(kSoftmax, autocast_inputs(kSoftmax, {x}, computing));
}

Tensor log_softmax(const Tensor& x, const Computing& computing) {
  return make_tensor(kLogSoftmax, autocast_inputs(kLogSoftmax, {x}, computing));
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon,
                  const Computing& computing) {
  return make_tensor(kLayerNorm, autocast_inputs(kLayerNorm, {x, scale, bias}, computing), {{"epsilon", epsilon}});
}

}  // namespace transom
