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

// A regular expression of texts that are valid in a format ("date", "uuid" ...), formats.cpp; "" for those that
// describe only.
std::string_view pattern_of_format(std::string_view name);
// The type of a value: "number" of whole ones, too.
const char* type_of(const Json& value);
bool is_whole(const Json& value);
// Characters of a text, as JSON Schema counts; items or members of others.
double length_of(const Json& value);
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

}  // namespace transom::constraint
