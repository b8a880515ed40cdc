// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Whether the node asks for rows that are the same in a product of any number of rows.
bool is_batch_invariant(const Node& node);
// Such a product with one matrix b, in f32 sums; nothing for types and layouts that it does not know.
std::optional<Kernel> batch_invariant_kernel(const Node& node, const ProductPlan& plan);

}  // namespace transom::cpu
