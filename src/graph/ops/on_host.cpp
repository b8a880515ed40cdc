// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/on_host.h"

#include "graph/ops/rules.h"

namespace transom {
namespace {

const Operation kOnHost = {.name = "on_host",
                           .kind = OperationKind::kComposite,
                           .documentation = "What its region computes, on the host: the device does not run it.",
                           .category = Category::kOther,
                           .infer = [](const Inference& in) -> std::vector<Type> {
                             fail(ErrorKind::kInternal, "{} without a region", in.operation.name);
                           }};

}  // namespace

const RegisterOperations kRegistered{&kOnHost};

namespace op {
const Operation& on_host = kOnHost;
}  // namespace op

}  // namespace transom
