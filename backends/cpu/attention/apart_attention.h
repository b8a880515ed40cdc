// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// attention, or ranged_attention, of a node that asks for rows apart (batch_invariant): a query has the bits that
// paged_attention gives it for the same keys and values, in a batch of whatever rows, padded on either side.
Kernel make_apart_attention(const Node& node);

}  // namespace transom::cpu
