// SPDX-License-Identifier: Apache-2.0
// Schemas of which a value is valid against one at most.
#pragma once

#include <cstdint>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// Whether what the grammar writes for each schema of the list is valid against none of the others, as far as it can be
// seen: by types, constants, limits, lengths, patterns, items, and properties that are required or never written.
// The grammar writes less than a schema allows (no properties beside those that are named), which counts here.
// `type`: of those that have none, or null; `root`: where their references lead; `work`: how much may still be looked
// at.
bool are_disjoint(const Json& list, const Json* type, const Json& root, int64_t& work);

}  // namespace transom::constraint
