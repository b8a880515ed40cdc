// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transom/tensor.h"

namespace transom {

struct Operation;

// x summed over the processes of the group, on each of them (see Device::join); x itself where there is no group.
// Collectives of one graph run in the order of `order`, which every process must give them alike. Counts as a constant
// when gradients are taken.
Tensor all_reduce(const Tensor& x, int64_t order);

}  // namespace transom
