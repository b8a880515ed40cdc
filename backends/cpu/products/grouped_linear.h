// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

void add_grouped_kernels(KernelTable& table);

}  // namespace transom::cpu
