// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Whether the node asks for rows that are the same in a product of any number of rows.
bool is_batch_invariant(const Node& node);
// Such a product with one matrix b, in f32 sums; nothing for types and layouts that it does not know. `waits`: a frozen
// b is not packed at its first use, since packing what is used once costs more than it saves.
std::optional<Kernel> panel_product(const Node& node, const ProductPlan& plan, bool waits = false);
// The same of several products, each with a matrix b of its own.
std::optional<Kernel> panel_products(const ProductPlan& plan);

}  // namespace transom::cpu
