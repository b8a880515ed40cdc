// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Products of bf16 with panels of b, as panel_product() does others, where the processor multiplies pairs of bf16;
// nothing for those that it does not take.
std::optional<Kernel> pair_product(const Node& node, const ProductPlan& plan, bool waits);

}  // namespace transom::cpu
