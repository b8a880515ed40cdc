// SPDX-License-Identifier: Apache-2.0
// Regions that a device runs as one kernel: fusion, of element-wise primitives, in one pass over memory; row_fusion, of
// what walks rows, some rows at a time. Made by the passes of their names only.
#include "graph/ir/graph.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

std::vector<Type> infer_nothing(const Inference& in) {
  fail(ErrorKind::kInternal, "{} without a region", in.operation.name);
}

const Operation kFusion = {.name = "fusion",
                           .kind = OperationKind::kComposite,
                           .documentation = "What its region of element-wise primitives computes, in one pass.",
                           .gradient_jumps = true,
                           .category = Category::kElements,
                           .infer = infer_nothing};

const Operation kRowFusion = {
    .name = "row_fusion",
    .kind = OperationKind::kComposite,
    .documentation =
        "What its region computes: reductions, norms and softmax along the last axis, and the fusions and "
        "element-wise primitives around them, which need no more than the same rows of each other.",
    .category = Category::kRows,
    .infer = infer_nothing};

}  // namespace

const RegisterOperations kRegisteredFusion{&kFusion, &kRowFusion};

namespace op {
const Operation &fusion = kFusion, &row_fusion = kRowFusion;
}  // namespace op

}  // namespace transom
