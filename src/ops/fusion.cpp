// SPDX-License-Identifier: Apache-2.0
// fusion: a region of element-wise primitives that a device runs in one pass over memory. Made by the fuse pass only.
#include "ir/graph.h"
#include "ops/rules.h"

namespace transom {
namespace {

const Operation kFusion = {.name = "fusion",
                           .kind = OperationKind::kComposite,
                           .documentation = "What its region of element-wise primitives computes, in one pass.",
                           .infer = [](const Inference& in) -> std::vector<Type> {
                             fail(ErrorKind::kInternal, "{} without a region", in.operation.name);
                           }};

}  // namespace

OperationList fusion_operations() { return {&kFusion}; }

}  // namespace transom
