// SPDX-License-Identifier: Apache-2.0
// Operations that pass their inputs on and only tell the compiler something. No device sees them: the lowering inlines
// checkpoint and drops the other two, optimization_barrier after it has merged equal expressions.
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

std::vector<Type> infer_identity(const Inference& in) { return {in.inputs.begin(), in.inputs.end()}; }

void evaluate_identity(std::span<const Array> in, const Attributes&, std::span<Array> out) {
  std::copy(in.begin(), in.end(), out.begin());
}

const Operation kStopGradient = {
    .name = "stop_gradient",
    .documentation = "x, which counts as a constant when gradients are taken.",
    .elementwise = true,
    .stops_gradient = true,
    .moves_only = true,
    .infer =
        [](const Inference& in) {
          expect_inputs(in, 1);
          return infer_identity(in);
        },
    .evaluate = evaluate_identity,
    .samples = []() -> std::vector<Sample> {
      return {{{{DType::kFloat32, {3, 5}}}, {}}, {{{DType::kBFloat16, {}}}, {}}, {{{DType::kInt64, {4}}}, {}}};
    }};

const Operation kOptimizationBarrier = {
    .name = "optimization_barrier",
    .documentation =
        "(x...) -> (x...): what is computed from its outputs is not merged with what is computed from its "
        "inputs, and not before all its inputs are there.",
    .infer =
        [](const Inference& in) {
          check(in, !in.inputs.empty(), "expected at least one tensor");
          return infer_identity(in);
        },
    .evaluate = evaluate_identity,
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      return {request.cotangents.begin(), request.cotangents.end()};
    },
    .samples = []() -> std::vector<Sample> {
      return {{{{DType::kFloat32, {3, 5}}}, {}}, {{{DType::kFloat32, {2}}, {DType::kInt64, {0, 4}}}, {}}};
    }};

const Operation kCheckpoint = {.name = "checkpoint",
                               .kind = OperationKind::kComposite,
                               .documentation = "What its region computes; the gradient computes the region again.",
                               .infer = [](const Inference& in) -> std::vector<Type> {
                                 fail(ErrorKind::kInternal, "{} without a region", in.operation.name);
                               }};

}  // namespace

const RegisterOperations kRegisteredIdentity{&kStopGradient, &kOptimizationBarrier, &kCheckpoint};

namespace op {
const Operation &stop_gradient = kStopGradient, &optimization_barrier = kOptimizationBarrier, &checkpoint = kCheckpoint;
}  // namespace op

}  // namespace transom
