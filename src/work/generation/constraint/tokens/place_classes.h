// SPDX-License-Identifier: Apache-2.0
// Places of a grammar that no token tells apart.
#pragma once

#include <cstdint>
#include <vector>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// For each node one that stands for it: from both the same texts of at most `bytes` bytes can be read, and end. In a
// list of at most 2,000 items that are most places alike.
std::vector<uint32_t> equivalent_places(const Grammar& grammar, size_t bytes);

}  // namespace transom::constraint
