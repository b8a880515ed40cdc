// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/schema_facts.h"

#include <algorithm>
#include <set>

#include "base/json.h"

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
    {"uri", "https?://[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+(-[a-z0-9]+)*)+(/[A-Za-z0-9_.~-]*)*"},
};

const Json& resolved(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int i = 0; i < 8 && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string(); ++i) {
    const auto name = (*at)["$ref"].get<std::string>();
    if (!name.starts_with("#/")) break;
    try {
      at = &root.at(Json::json_pointer(name.substr(1)));
    } catch (const Json::exception&) {
      break;
    }
  }
  return *at;
}

}  // namespace

std::string_view pattern_of_format(std::string_view name) {
  for (const Format& format : kFormats)
    if (format.name == name) return format.pattern;
  return {};
}

// Types that differ, or a property that each requires with a constant of its own.
bool are_disjoint(const Json& list, const Json& root) {
  std::set<std::string> types;
  bool by_type = true;
  for (const Json& item : list) {
    const Json& schema = resolved(item, root);
    const bool has_type = schema.is_object() && schema.contains("type") && schema["type"].is_string();
    by_type = by_type && has_type &&
              types.insert(schema["type"] == "integer" ? "number" : schema["type"].get<std::string>()).second;
  }
  if (by_type) return true;
  const Json& first = resolved(list[0], root);
  if (!first.is_object() || !first.contains("properties") || !first["properties"].is_object()) return false;
  for (const auto& [name, content] : first["properties"].items()) {
    std::set<std::string> constants;
    bool all = true;
    for (const Json& item : list) {
      const Json& schema = resolved(item, root);
      all = all && schema.is_object() && schema.contains("properties") && schema["properties"].is_object() &&
            schema["properties"].contains(name) && schema.contains("required") && schema["required"].is_array() &&
            std::find(schema["required"].begin(), schema["required"].end(), name) != schema["required"].end();
      if (!all) break;
      const Json& property = schema["properties"][name];
      Json values = Json::array();
      if (property.is_object() && property.contains("const")) values.push_back(property["const"]);
      else if (property.is_object() && property.contains("enum") && property["enum"].is_array())
        values = property["enum"];
      all = !values.empty();
      for (const Json& value : values) all = all && constants.insert(value.dump()).second;
      if (!all) break;
    }
    if (all) return true;
  }
  return false;
}

}  // namespace transom::constraint
