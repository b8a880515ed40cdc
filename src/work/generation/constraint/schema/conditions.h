// SPDX-License-Identifier: Apache-2.0
// Conditions of JSON schemas as alternatives.
#pragma once

#include <optional>
#include <string>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// The schema with `dependentRequired` and `if`, `then`, `else` written as anyOf; nothing where it has none of them.
// Throws Error for an `if` that is more than properties with listed values and required names.
std::optional<Json> with_alternatives(const Json& schema, const std::string& where);

}  // namespace transom::constraint
