// SPDX-License-Identifier: Apache-2.0
// Pools of keys and values with room to grow: a program is compiled for the size of its arguments, so that a pool that
// keeps its size keeps its programs. Pages of host memory that nobody has written take no memory.
#pragma once

#include <span>
#include <vector>

#include "models/nn/attention/paged_cache.h"

namespace transom {

// Pools with undefined contents. None where the device in use has memory of its own, which would be taken at once, or
// where there is no memory.
std::vector<Tensor> reserve_pools(const std::vector<Type>& types);

// Sets the blocks [begin, end) of the pools of reserve_pools, which may have been through programs since, to zeros.
// They have `blocks` blocks.
void clear_rows(std::span<const Tensor> pools, int64_t begin, int64_t end, int64_t blocks);

}  // namespace transom
