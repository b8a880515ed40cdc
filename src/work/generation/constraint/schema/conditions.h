// SPDX-License-Identifier: Apache-2.0
// Keywords that others can say.
#pragma once

#include <optional>
#include <string>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// The schema in the words of draft 2020-12, where it has those of older drafts: items as a list, additionalItems,
// exclusive limits as true or false, dependencies. Nothing where it has none.
std::optional<Json> in_newer_words(const Json& schema);

// The schema with if, then, else, dependentRequired, dependentSchemas, and `not` of more than the grammar keeps, as
// allOf of alternatives, and in newer words. Nothing where it has none of these. Throws Error for conditions whose
// opposite is not known; such a `not` is left.
std::optional<Json> with_alternatives(const Json& schema, const Json& root, const std::string& where);

}  // namespace transom::constraint
