// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/device/library.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// Whether own loops multiply these few rows of bf16, if the library packs the weight in their layout: it is packed at
// its first use then, so that all uses give the same bits.
bool may_multiply_few_pair_rows(const ProductPlan& plan);

// Whether own loops multiply these few rows of bf16 with a weight that the library packed in this layout.
bool multiplies_few_pair_rows(const ProductPlan& plan, const dnnl::memory::desc& layout);

// c [m, n], of the plan's output type, = a b, and the bias [n] of bf16 where it is not null.
void multiply_few_pair_rows(const ProductPlan& plan, const std::byte* a, const std::byte* packed, const std::byte* bias,
                            std::byte* c);

}  // namespace transom::cpu
