// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/conditions.h"

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/schema/merge.h"

namespace transom::constraint {
namespace {

Json lacks(const std::string& name) { return {{"not", {{"required", Json::array({name})}}}}; }

// What is valid where `condition` is not: a property that is missing, or has another value.
Json opposite(const Json& condition, const std::string& where) {
  const auto refuse = [&] {
    fail(
        "{}.if: supported are properties with const or enum and required names; write the alternatives as anyOf "
        "otherwise",
        where);
  };
  Json ways = Json::array();
  if (!condition.is_object()) refuse();
  for (const auto& [keyword, content] : condition.items()) {
    if (only_describes(keyword) || (keyword == "type" && content == "object")) continue;
    if (keyword == "required" && content.is_array()) {
      for (const Json& name : content) {
        if (!name.is_string()) refuse();
        ways.push_back(lacks(name.get<std::string>()));
      }
    } else if (keyword == "properties" && content.is_object()) {
      for (const auto& [name, said] : content.items()) {
        if (!said.is_object() || said.size() != 1 || !(said.contains("const") || said.contains("enum"))) refuse();
        ways.push_back({{"required", Json::array({name})}, {"properties", {{name, {{"not", said}}}}}});
      }
    } else {
      refuse();
    }
  }
  if (ways.empty()) return false;
  return {{"anyOf", ways}};
}

}  // namespace

std::optional<Json> with_alternatives(const Json& schema, const std::string& where) {
  const bool decides = schema.contains("if") && (schema.contains("then") || schema.contains("else"));
  if (!schema.contains("dependentRequired") && !schema.contains("if") && !schema.contains("then") &&
      !schema.contains("else"))
    return std::nullopt;
  Json result = schema;
  for (const char* name : {"dependentRequired", "if", "then", "else"}) result.erase(name);
  Json all = schema.contains("allOf") ? schema["allOf"] : Json::array();
  if (schema.contains("dependentRequired")) {
    if (!schema["dependentRequired"].is_object()) fail("{}.dependentRequired: expected an object", where);
    for (const auto& [name, others] : schema["dependentRequired"].items()) {
      if (!others.is_array()) fail("{}.dependentRequired: expected lists of names", where);
      Json required = Json::array({name});
      for (const Json& other : others) required.push_back(other);
      all.push_back({{"anyOf", Json::array({lacks(name), {{"required", required}}})}});
    }
  }
  if (decides) {
    const Json then = schema.value("then", Json(true)), otherwise = schema.value("else", Json(true));
    all.push_back({{"anyOf", Json::array({{{"allOf", Json::array({schema["if"], then})}},
                                          {{"allOf", Json::array({opposite(schema["if"], where), otherwise})}}})}});
  }
  if (!all.empty()) result["allOf"] = std::move(all);
  return result;
}

}  // namespace transom::constraint
