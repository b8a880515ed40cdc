// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Many products of matrices so small that a call of the library costs as much as its work. Empty where the plan is of
// other products.
std::optional<Kernel> small_products_kernel(const ProductPlan& plan);

}  // namespace transom::cpu
