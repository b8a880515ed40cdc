// SPDX-License-Identifier: Apache-2.0
// Whether a value is valid against a JSON schema, of values that stand in schemas themselves.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// By all keywords but unevaluatedItems, unevaluatedProperties and references to other documents, where nothing is said.
// Formats describe only. `work` is how much may still be looked at, so that no schema takes long; nothing where it
// ends.
std::optional<bool> is_valid(const Json& value, const Json& schema, const Json& root, int64_t& work, int depth = 0);

inline bool is_certainly_invalid(const Json& value, const Json& schema, const Json& root, int64_t& work) {
  return is_valid(value, schema, root, work) == false;
}

}  // namespace transom::constraint
