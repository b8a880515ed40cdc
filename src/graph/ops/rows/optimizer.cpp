// SPDX-License-Identifier: Apache-2.0
// One step of AdamW on one parameter (Loshchilov and Hutter, 2019), computed as torch.optim.AdamW does.
#include "graph/ops/rows/optimizer.h"

#include "graph/ops/rules.h"

namespace transom {
namespace {

const Operation kAdamWStep = {
    .name = "adamw_step",
    .kind = OperationKind::kComposite,
    .documentation =
        "(p, g, m, v, step_size, decay, correction) -> (p, m, v): m and v are running means of g and g^2 by `beta1` "
        "and `beta2`; p decay - step_size m / (sqrt(v) correction + `epsilon`). step_size = lr / (1 - beta1^t), decay "
        "= "
        "1 - lr weight_decay and correction = 1 / sqrt(1 - beta2^t) are f32 scalars that change from step to step.",
    .category = Category::kElements,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 7);
      expect_floating(in, 0);
      for (const size_t i : {4u, 5u, 6u})
        check(in, in.inputs[i] == Type{in.dtype(0), {}}, "expected a scalar {}, found {}", name_of(in.dtype(0)),
              in.inputs[i]);
      for (const size_t i : {1u, 2u, 3u}) {
        expect_same_types(in, 0, i);
        expect_same_shape(in, 0, i);
      }
      return {in.inputs[0], in.inputs[2], in.inputs[3]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const double beta1 = attributes.get_float("beta1"), beta2 = attributes.get_float("beta2");
      const Tensor &p = in[0], &g = in[1];
      const Tensor m = in[2] + (g - in[2]) * (1 - beta1);
      const Tensor v = in[3] * beta2 + g * g * (1 - beta2);
      const Tensor update = m / (sqrt(v) * in[6] + attributes.get_float("epsilon"));
      return {p * in[5] - update * in[4], m, v};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      const Type scalar{DType::kFloat32, {}};
      for (const Shape& shape : {Shape{}, Shape{5, 33}, Shape{1025}}) {
        const Type type{DType::kFloat32, shape};
        samples.push_back({{type, type, type, type, scalar, scalar, scalar},
                           {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}},
                           0.1,
                           1});
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredOptimizer{&kAdamWStep};

AdamWResult adamw_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v, const Tensor& step_size,
                       const Tensor& decay, const Tensor& correction, const AdamWConstants& constants) {
  const auto outputs =
      make_tensors(kAdamWStep, {p, g, m, v, step_size, decay, correction},
                   {{"beta1", constants.beta1}, {"beta2", constants.beta2}, {"epsilon", constants.epsilon}});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace transom
