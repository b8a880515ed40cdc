// SPDX-License-Identifier: Apache-2.0
// Products with a frozen weight of 16 bits where the library computes in f32.
#pragma once

#include <optional>

#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Reads the weight where it is stored: each thread widens a few columns at a time, which stay in its second cache. A
// packed copy in f32 would take twice the memory of the weight. Nothing where the operands are no rows of numbers that
// follow each other.
std::optional<Kernel> widened_weight_kernel(const Node& node, const ProductPlan& plan);

}  // namespace transom::cpu
