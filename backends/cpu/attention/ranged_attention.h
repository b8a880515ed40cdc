// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

Kernel make_ranged_attention(const Node& node);
Kernel make_ranged_attention_gradient(const Node& node);

}  // namespace transom::cpu
