// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// Products with packed matrices of codes.
void add_code_kernels(KernelTable& table);
Kernel make_quantized_matmul_gradient(const Node& node);

}  // namespace transom::cpu
