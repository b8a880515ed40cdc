// SPDX-License-Identifier: Apache-2.0
// A rule called so many times, in about the square root of as many states: texts of at most 5,000 characters are no
// larger a grammar than those of 70.
#pragma once

#include "generation/constraint/grammar.h"

namespace transom::constraint {

constexpr int64_t kMostCounted = 1'000'000;

// `most` below 0: no limit. Refuses what is above kMostCounted or impossible. The rule must read something.
GrammarBuilder::Part counted(GrammarBuilder& builder, uint32_t rule, int64_t least, int64_t most);

}  // namespace transom::constraint
