// SPDX-License-Identifier: Apache-2.0
// Root mean square norm over the last axis (Zhang and Sennrich, 2019), with its gradient: composites that a device may
// run in one pass a row.
#include "graph/ops/function_records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

Tensor inverse_root_mean_square(const Tensor& x, double epsilon) {
  return rsqrt(mean(x * x, {-1}, true) + epsilon);  // [..., 1]
}

void expect_scale(const Inference& in) {
  expect_floating(in, 0);
  check(in, in.rank(0) >= 1 && in.shape(1) == Shape{in.shape(0).back()},
        "expected a scale of [{}] beside x of {}, found {}", in.rank(0) ? in.shape(0).back() : 0, in.shape(0),
        in.shape(1));
  expect_same_types(in, 0, 1);
}

const Operation kRmsNormGradient = {
    .name = "rms_norm_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(x, scale, dy): the gradients of rms_norm for (x, scale).",
    .category = Category::kRows,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_scale(in);
      expect_same_types(in, 0, 2);
      expect_same_shape(in, 0, 2);
      return {in.inputs[0], in.inputs[1]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor x = widened(in[0]), scale = widened(in[1]), dy = widened(in[2]);
      const Tensor inverse = inverse_root_mean_square(x, attributes.get_float("epsilon"));
      const Tensor normal = x * inverse, g = dy * scale;
      const Tensor dx = inverse * (g - normal * mean(g * normal, {-1}, true));
      Axes rows(static_cast<size_t>(x.rank()) - 1);
      std::iota(rows.begin(), rows.end(), int64_t{0});
      return {cast(dx, in[0].dtype()), cast(reduce_sum(dy * normal, rows), in[1].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const Shape& shape : {Shape{7}, Shape{5, 33}, Shape{2, 3, 70}})
          samples.push_back({{{dtype, shape}, {dtype, {shape.back()}}, {dtype, shape}}, {{"epsilon", 1e-5}}});
      return samples;
    }};

const Operation kRmsNorm = {
    .name = "rms_norm",
    .kind = OperationKind::kComposite,
    .documentation = "(x, scale): x / sqrt(mean of x^2 + `epsilon`) * scale along the last axis.",
    .category = Category::kRows,
    .autocast = AutocastClass::kFull,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_scale(in);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor x = widened(in[0]);
      const Tensor normal = x * inverse_root_mean_square(x, attributes.get_float("epsilon"));
      return {cast(normal * widened(in[1]), in[0].dtype())};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      return make_tensors(kRmsNormGradient, {request.inputs[0], request.inputs[1], request.cotangents[0]},
                          request.attributes);
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const Shape& shape : {Shape{7}, Shape{5, 33}, Shape{2, 3, 70}, Shape{0, 4}})
          samples.push_back({{{dtype, shape}, {dtype, {shape.back()}}}, {{"epsilon", 1e-5}}});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredRmsNorm{&kRmsNorm, &kRmsNormGradient};

namespace op {
const Operation& rms_norm = kRmsNorm;
}  // namespace op

Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon, const Computing& computing) {
  return make_tensor(kRmsNorm, autocast_inputs(kRmsNorm, {x, scale}, computing), {{"epsilon", epsilon}});
}

}  // namespace transom
