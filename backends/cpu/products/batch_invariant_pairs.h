// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// A product of bf16 in which a row has the same bits whatever other rows there are, by products of pairs; nothing where
// the processor has none, and for types and layouts that it does not know.
std::optional<Kernel> batch_invariant_pairs(const Node& node, const ProductPlan& plan);

}  // namespace transom::cpu
