// SPDX-License-Identifier: Apache-2.0
// What processes compute together. The runtime carries these out between the programs of a device (see
// runtime/collective_program.h); where there is one process only, nothing is left of them.
#include "ops/collectives.h"

#include "ops/rules.h"

namespace transom {
namespace {

const Operation kAllReduce = {
    .name = "all_reduce",
    .kind = OperationKind::kComposite,
    .documentation = "x summed over the processes of the group; `order` says when, among the collectives of a graph.",
    .stops_gradient = true,
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      expect_floating(in, 0);
      expect_between(in, {in.attributes.get_int("order")}, 0, int64_t{1} << 32, "an order");
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> std::vector<Tensor> { return {in[0]}; },
    .samples = []() -> std::vector<Sample> {
      return {{{{DType::kFloat32, {5}}}, {{"order", int64_t{0}}}},
              {{{DType::kBFloat16, {2, 3}}}, {{"order", int64_t{3}}}}};
    }};

}  // namespace

Tensor all_reduce(const Tensor& x, int64_t order) { return make_tensor(kAllReduce, {x}, {{"order", order}}); }

const RegisterOperations kRegistered{&kAllReduce};

}  // namespace transom
