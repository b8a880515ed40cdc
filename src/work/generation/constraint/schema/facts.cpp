// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/percent.h"
#include "work/generation/constraint/grammar/patterns.h"

namespace transom::constraint {
namespace {

struct Format {
  std::string_view name, pattern;
};
constexpr Format kFormats[] = {
    {"date", "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])"},
    {"time", "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"date-time",
     "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"},
    {"email", "[a-z0-9]+([._-][a-z0-9]+)*@[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+(-[a-z0-9]+)*)+"},
    {"hostname", "[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+(-[a-z0-9]+)*)*"},
    {"ipv6", "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}"},
    {"duration", "P(\\d{1,4}W|\\d{1,4}D(T\\d{1,4}H)?|T\\d{1,4}(H|M|S))"},
    {"uri", "https?://[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+(-[a-z0-9]+)*)+(/[A-Za-z0-9_.~-]*)*"},
};

const std::set<std::string> kAllTypes{"array", "boolean", "null", "number", "object", "string"};

const char* type_of(const Json& value) {
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_object()) return "object";
  return value.is_array() ? "array" : "null";
}

double number_in(const Json& schema, const char* name, double otherwise) {
  const auto found = schema.find(name);
  return found != schema.end() && found->is_number() ? found->get<double>() : otherwise;
}

// JSON Schema counts characters.
double length_of(const Json& value) {
  if (!value.is_string()) return static_cast<double>(value.size());
  const auto& text = value.get_ref<const std::string&>();
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool is_whole(const Json& value) {
  return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

}  // namespace

std::string_view pattern_of_format(std::string_view name) {
  for (const Format& format : kFormats)
    if (format.name == name) return format.pattern;
  return {};
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

namespace {

// What the keywords of the value's own type say.
bool breaks_own_keywords(const Json& value, const Json& schema, const Json& root, int64_t& work, int depth) {
  const auto keyword = [&](const char* name) {
    const auto found = schema.find(name);
    return found == schema.end() ? nullptr : &*found;
  };
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (const Json* step = keyword("multipleOf"); step && step->is_number_unsigned() && *step != 0)
      if (std::fmod(number, step->get<double>()) != 0) return true;
    return !limits_of(schema).meet({number, number, false, false});
  }
  if (value.is_string() || value.is_array()) {
    const double length = length_of(value);
    if (!counts_of(schema, value.is_string() ? "Length" : "Items").meet({length, length})) return true;
  }
  if (const Json* pattern = keyword("pattern"); value.is_string() && pattern && pattern->is_string()) {
    constexpr int64_t kWorkOfPattern = 40'000;
    if ((work -= kWorkOfPattern) < 0) return false;
    try {
      return !matches_pattern(pattern->get<std::string>(), value.get<std::string>());
    } catch (const Error&) {  // the grammar of the schema refuses it, by name
      return false;
    }
  }
  if (value.is_array()) {
    if (const Json* unique = keyword("uniqueItems"); unique && *unique == true)
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t j = 0; j < i && --work >= 0; ++j)
          if (equal_values(value[i], value[j])) return true;
    const Json *first = keyword("prefixItems"), *rest = keyword("items");
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* item = first && first->is_array() && i < first->size() ? &(*first)[i] : rest;
      if (item && is_certainly_invalid(value[i], *item, root, work, depth + 1)) return true;
    }
  }
  if (!value.is_object()) return false;
  if (const Json* names = keyword("required"); names && names->is_array())
    for (const Json& name : *names)
      if (name.is_string() && !value.contains(name.get<std::string>())) return true;
  const auto count = static_cast<double>(value.size());
  if (!counts_of(schema, "Properties").meet({count, count})) return true;
  const Json *properties = keyword("properties"), *others = keyword("additionalProperties");
  for (const auto& [name, content] : value.items()) {
    if (const Json* names = keyword("propertyNames"))
      if (is_certainly_invalid(name, *names, root, work, depth + 1)) return true;
    const Json* of_name = others && !keyword("patternProperties") ? others : nullptr;
    if (properties && properties->is_object() && properties->contains(name)) of_name = &(*properties)[name];
    if (of_name && is_certainly_invalid(content, *of_name, root, work, depth + 1)) return true;
  }
  return false;
}

}  // namespace

std::optional<bool> is_valid_for_one_keyword(const Json& value, const Json& schema, int64_t& work, int depth) {
  constexpr int kDeepest = 16;
  if (--work < 0 || depth > kDeepest || !schema.is_object() || schema.size() != 1) return std::nullopt;
  const std::string name = schema.begin().key();
  const Json& content = schema.begin().value();
  if (const auto values = listed_values(schema)) {
    work -= static_cast<int64_t>(values->size());
    return std::any_of(values->begin(), values->end(), [&](const Json* each) { return equal_values(value, *each); });
  }
  if (name == "type") {
    if (!types_allowed(schema).contains(type_of(value))) return false;
    const Json types = content.is_array() ? content : Json::array({content});
    const bool only_whole = std::find(types.begin(), types.end(), "number") == types.end();
    return !value.is_number() || !only_whole || is_whole(value);
  }
  if (name == "pattern" && content.is_string())
    return !value.is_string() || matches_pattern(content.get<std::string>(), value.get<std::string>());
  if (name == "required" && content.is_array())
    return !value.is_object() || std::all_of(content.begin(), content.end(), [&](const Json& each) {
      return !each.is_string() || value.contains(each.get<std::string>());
    });
  if (name != "anyOf" || !content.is_array()) return std::nullopt;
  bool any = false;
  for (const Json& each : content) {
    const std::optional<bool> valid = is_valid_for_one_keyword(value, each, work, depth + 1);
    if (!valid) return valid;
    any = any || *valid;
  }
  return any;
}

bool is_certainly_invalid(const Json& value, const Json& given, const Json& root, int64_t& work, int depth) {
  constexpr int kDeepest = 64;
  if (--work < 0 || depth > kDeepest) return false;
  const Json& schema = resolved(given, root);
  if (schema.is_boolean()) return !schema.get<bool>();
  if (!schema.is_object()) return false;
  if (!types_allowed(schema).contains(type_of(value))) return true;
  if (const auto type = schema.find("type"); type != schema.end() && *type == "integer" && value.is_number())
    if (!is_whole(value)) return true;
  if (const auto values = listed_values(schema)) {
    work -= static_cast<int64_t>(values->size());
    if (std::none_of(values->begin(), values->end(), [&](const Json* each) { return equal_values(value, *each); }))
      return true;
  }
  const auto is_invalid = [&](const Json& each) { return is_certainly_invalid(value, each, root, work, depth + 1); };
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema.find(name);
    if (list == schema.end() || !list->is_array() || list->empty()) continue;
    if (name[1] == 'l' ? std::any_of(list->begin(), list->end(), is_invalid)
                       : std::all_of(list->begin(), list->end(), is_invalid))
      return true;
  }
  if (const auto other = schema.find("not"); other != schema.end())
    if (is_valid_for_one_keyword(value, *other, work).value_or(false)) return true;
  return breaks_own_keywords(value, schema, root, work, depth);
}

}  // namespace transom::constraint
