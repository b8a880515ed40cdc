// SPDX-License-Identifier: Apache-2.0
// What is valid where a schema is not.
#pragma once

#include <optional>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// A schema against which nothing is valid that is valid against the given one. It may allow less than the opposite
// does, so that keywords whose opposite no schema says are left to the others. Nothing where no opposite is known.
std::optional<Json> negated(const Json& schema, const Json& root, int depth = 0);

}  // namespace transom::constraint
