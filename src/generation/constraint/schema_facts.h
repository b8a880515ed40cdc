// SPDX-License-Identifier: Apache-2.0
// What can be said of JSON schemas without a grammar.
#pragma once

#include <string_view>

#include "base/json_fwd.h"

namespace transom::constraint {

// A regular expression of texts that are valid in a format ("date", "uuid" ...); "" for those that describe only. Dates
// have at most 28 days, so that each is one.
std::string_view pattern_of_format(std::string_view name);
// Whether no value is valid against two of the schemas, as far as it can be seen: their types differ, or each requires
// a property with constants of its own. `root`: where their references lead.
bool are_disjoint(const Json& list, const Json& root);

}  // namespace transom::constraint
