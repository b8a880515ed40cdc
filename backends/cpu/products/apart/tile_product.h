// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Products of bf16 with panels of b, as panel_product() does others, by tiles of the processor; nothing for those that
// it does not take, and where the processor has no tiles.
std::optional<Kernel> tile_product(const Node& node, const ProductPlan& plan, bool waits);

}  // namespace transom::cpu
