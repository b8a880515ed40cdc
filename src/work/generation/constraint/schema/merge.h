// SPDX-License-Identifier: Apache-2.0
// Several JSON schemas that hold together as one.
#pragma once

#include <cstdint>
#include <string>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// What stands in a schema and changes nothing that is written: what is no keyword of any draft describes, too (draft
// 2020-12, Core, 4.3.1).
bool only_describes(const std::string& keyword);
// More patterns that a text matches beside `pattern`, where schemas were merged.
inline constexpr const char* kMorePatterns = "x-transom-patterns";

// The schema with $ref, what stands beside it, and all schemas of allOf as one without either, but for allOf that holds
// a second anyOf or oneOf; `false` where they certainly allow nothing together. Schemas inside of it (of properties,
// items) are left as allOf of their own. Throws Error that names keywords that cannot be merged. `work` as in
// facts.h.
Json merged_schema(const Json& schema, const Json& root, const std::string& where, int64_t& work);

}  // namespace transom::constraint
