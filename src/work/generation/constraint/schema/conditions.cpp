// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/conditions.h"

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"
#include "work/generation/constraint/schema/negation.h"

namespace transom::constraint {
namespace {

Json lacks(const std::string& name) { return {{"not", {{"required", Json::array({name})}}}}; }

// Whether the grammar keeps it as it is: types, listed values, a pattern, required names one by one.
bool is_kept_negation(const Json& schema) {
  if (!schema.is_object() || schema.size() != 1) return false;
  const std::string name = schema.begin().key();
  const Json& content = schema.begin().value();
  if (name == "required") return content.is_array() && content.size() == 1;
  if (name == "type" || name == "const" || name == "enum" || name == "pattern") return true;
  if (name != "anyOf" || !content.is_array()) return false;
  for (const Json& each : content)
    if (!each.is_object() || !each.contains("required") || !is_kept_negation(each)) return false;
  return !content.empty();
}

void add_dependencies(const Json& schema, const std::string& where, Json& all) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas"}) {
    if (!schema.contains(keyword)) continue;
    if (!schema[keyword].is_object()) fail("{}.{}: expected an object", where, keyword);
    for (const auto& [name, said] : schema[keyword].items()) {
      Json required = Json::array({name}), held = Json::array();
      if (said.is_array())
        for (const Json& other : said) required.push_back(other);
      else if (keyword[9] == 'S') held.push_back(said);
      else fail("{}.dependentRequired: expected lists of names", where);
      held.push_back({{"required", required}});
      all.push_back({{"anyOf", Json::array({lacks(name), {{"allOf", held}}})}});
    }
  }
}

}  // namespace

std::optional<Json> in_newer_words(const Json& schema) {
  const auto find = [&](const char* name) { return schema.find(name); };
  const auto is_flag = [&](const char* name) { return find(name) != schema.end() && find(name)->is_boolean(); };
  const bool lists = find("items") != schema.end() && find("items")->is_array();
  if (!lists && !schema.contains("additionalItems") && !schema.contains("dependencies") &&
      !is_flag("exclusiveMinimum") && !is_flag("exclusiveMaximum"))
    return std::nullopt;
  Json result = schema;
  result.erase("additionalItems");
  if (lists) {
    result["prefixItems"] = schema["items"];
    result.erase("items");
    if (schema.contains("additionalItems")) result["items"] = schema["additionalItems"];
  }
  const auto rename_limit = [&](const char* limit, const char* exclusive) {
    if (!is_flag(exclusive)) return;
    result.erase(exclusive);
    if (schema[exclusive] != true || !schema.contains(limit)) return;
    result.erase(limit);
    result[exclusive] = schema[limit];
  };
  rename_limit("minimum", "exclusiveMinimum"), rename_limit("maximum", "exclusiveMaximum");
  if (schema.contains("dependencies") && schema["dependencies"].is_object()) {
    result.erase("dependencies");
    for (const auto& [name, said] : schema["dependencies"].items())
      // Draft 3 has one name as a string.
      if (said.is_string()) result["dependentRequired"][name] = Json::array({said});
      else result[said.is_array() ? "dependentRequired" : "dependentSchemas"][name] = said;
  }
  return result;
}

std::optional<Json> with_alternatives(const Json& given, const Json& root, const std::string& where) {
  std::optional<Json> newer = in_newer_words(given);
  const Json& schema = newer ? *newer : given;
  const auto has = [&](const char* name) { return schema.contains(name); };
  std::optional<Json> other;
  // Values that are listed are looked at by themselves.
  if (has("not") && !is_kept_negation(schema["not"]) && !has("const") && !has("enum"))
    other = negated(schema["not"], root);
  if (!other && !has("dependentRequired") && !has("dependentSchemas") && !has("if") && !has("then") && !has("else"))
    return newer;
  Json result = schema;
  for (const char* name : {"dependentRequired", "dependentSchemas", "if", "then", "else"}) result.erase(name);
  Json all = has("allOf") ? schema["allOf"] : Json::array();
  if (other) {
    result.erase("not");
    all.push_back(std::move(*other));
  }
  add_dependencies(schema, where, all);
  if (has("if") && (has("then") || has("else"))) {
    const Json then = schema.value("then", Json(true)), otherwise = schema.value("else", Json(true));
    std::optional<Json> opposite = negated(schema["if"], root);
    if (!opposite)
      fail("{}.if: no opposite is known of what it says; write the alternatives as anyOf, each with what it requires",
           where);
    all.push_back({{"anyOf", Json::array({{{"allOf", Json::array({schema["if"], then})}},
                                          {{"allOf", Json::array({std::move(*opposite), otherwise})}}})}});
  }
  if (!all.empty()) result["allOf"] = std::move(all);
  return result;
}

}  // namespace transom::constraint
