// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/percent.h"

namespace transom::constraint {
namespace {

const std::set<std::string> kAllTypes{"array", "boolean", "null", "number", "object", "string"};

double number_in(const Json& schema, const char* name, double otherwise) {
  const auto found = schema.find(name);
  return found != schema.end() && found->is_number() ? found->get<double>() : otherwise;
}

}  // namespace

const char* type_of(const Json& value) {
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_object()) return "object";
  return value.is_array() ? "array" : "null";
}

double length_of(const Json& value) {
  if (!value.is_string()) return static_cast<double>(value.size());
  const auto& text = value.get_ref<const std::string&>();
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool is_whole(const Json& value) {
  return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

namespace {

// The pointer of a reference "#/...", which as a part of an address has its spaces and quotes as %20 and %22.
Json::json_pointer pointer_of(std::string_view reference) {
  return Json::json_pointer(*percent_decoded(reference.substr(1), BrokenEscapes::kKept));
}

}  // namespace

const Json& resolved(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int i = 0; i < 8 && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string(); ++i) {
    const auto name = (*at)["$ref"].get<std::string>();
    if (name == "#") return root;
    if (!name.starts_with("#/")) break;
    try {
      at = &root.at(pointer_of(name));
    } catch (const Json::exception&) {
      break;
    }
  }
  return *at;
}

const Json& referred(const Json& reference, const Json& root, const std::string& where) {
  if (!reference.is_string()) fail("{}.$ref: expected a string", where);
  const auto name = reference.get<std::string>();
  if (!name.starts_with("#")) fail("{}.$ref: expected a place in this schema (#/...), found {}", where, quoted(name));
  try {
    return name == "#" ? root : root.at(pointer_of(name));
  } catch (const Json::exception&) {
    fail("{}.$ref: there is no {}", where, quoted(name));
  }
}

bool equal_values(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, value] : a.items()) {
      const auto other = b.find(name);
      if (other == b.end() || !equal_values(value, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array())
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Json& x, const Json& y) { return equal_values(x, y); });
  return a == b;
}

std::set<std::string> types_allowed(const Json& schema) {
  const auto given = schema.find("type");
  if (given == schema.end()) return kAllTypes;
  std::set<std::string> types;
  const auto add = [&](const Json& name) {
    if (name.is_string()) types.insert(name == "integer" ? "number" : name.get<std::string>());
  };
  if (given->is_array()) std::for_each(given->begin(), given->end(), add);
  else add(*given);
  if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == true)
    types.insert("null");
  return types;
}

std::optional<std::vector<const Json*>> listed_values(const Json& schema) {
  if (const auto value = schema.find("const"); value != schema.end()) return {{&*value}};
  const auto list = schema.find("enum");
  if (list == schema.end() || !list->is_array()) return std::nullopt;
  std::vector<const Json*> values;
  for (const Json& value : *list) values.push_back(&value);
  return values;
}

bool Limits::meet(const Limits& other) const {
  const auto is_below = [](const Limits& a, const Limits& b) {
    return a.most < b.least || (a.most == b.least && (a.below_most || b.above_least));
  };
  return !is_below(*this, other) && !is_below(other, *this);
}

Limits limits_of(const Json& schema) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Limits limits{number_in(schema, "minimum", -kInfinity), number_in(schema, "maximum", kInfinity), false, false};
  if (const double least = number_in(schema, "exclusiveMinimum", -kInfinity);
      least >= limits.least && least > -kInfinity)
    limits.least = least, limits.above_least = true;
  if (const double most = number_in(schema, "exclusiveMaximum", kInfinity); most <= limits.most && most < kInfinity)
    limits.most = most, limits.below_most = true;
  return limits;
}

Counts counts_of(const Json& schema, const char* what) {
  return {number_in(schema, fmt::format("min{}", what).c_str(), 0),
          number_in(schema, fmt::format("max{}", what).c_str(), std::numeric_limits<double>::infinity())};
}

}  // namespace transom::constraint
