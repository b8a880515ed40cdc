// SPDX-License-Identifier: Apache-2.0
// What can be said of JSON schemas and values without a grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom::constraint {

// A regular expression of texts that are valid in a format ("date", "uuid" ...); "" for those that describe only. Dates
// have at most 28 days, so that each is one.
std::string_view pattern_of_format(std::string_view name);
// The place that a schema's references lead to; the schema itself where they lead nowhere.
const Json& resolved(const Json& schema, const Json& root);
// The place that one $ref names. Throws Error where it names none.
const Json& referred(const Json& reference, const Json& root, const std::string& where);
// As JSON Schema compares: numbers by their value, objects without the order of their keys.
bool equal_values(const Json& a, const Json& b);
// The names of `type`, integer among them as number; all where there are none. `null` too where it is nullable.
std::set<std::string> types_allowed(const Json& schema);
// The values of `const` or `enum`.
std::optional<std::vector<const Json*>> listed_values(const Json& schema);

// Limits of numbers.
struct Limits {
  double least, most;
  bool above_least, below_most;  // the limits themselves are left out
  // Whether a number lies within both.
  bool meet(const Limits& other) const;
};
Limits limits_of(const Json& schema);
// Of texts ("Length"), lists ("Items").
struct Counts {
  double least, most;
  bool meet(const Counts& other) const { return least <= other.most && other.least <= most; }
};
Counts counts_of(const Json& schema, const char* what);

// Whether the value is valid against a schema of one keyword: const, enum, type, pattern, required, or anyOf of such.
// Nothing where the schema is another.
std::optional<bool> is_valid_for_one_keyword(const Json& value, const Json& schema, int64_t& work, int depth = 0);

// Whether the value is not valid for certain: by type, const, enum, limits, lengths, pattern, items, properties,
// required, anyOf, oneOf, allOf, not. `work` is how much may still be looked at, so that no schema takes long; where it
// ends, nothing is certain.
bool is_certainly_invalid(const Json& value, const Json& schema, const Json& root, int64_t& work, int depth = 0);

}  // namespace transom::constraint
