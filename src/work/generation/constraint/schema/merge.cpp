// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/merge.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/schema/conditions.h"
#include "work/generation/constraint/schema/facts.h"

namespace transom::constraint {

bool only_describes(const std::string& keyword) {
  static const std::set<std::string, std::less<>> kSay{"$ref",
                                                       "$dynamicRef",
                                                       "$recursiveRef",
                                                       "type",
                                                       "nullable",
                                                       "const",
                                                       "enum",
                                                       "not",
                                                       "allOf",
                                                       "anyOf",
                                                       "oneOf",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "properties",
                                                       "required",
                                                       "patternProperties",
                                                       "minProperties",
                                                       "maxProperties",
                                                       "additionalProperties",
                                                       "propertyNames",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "unevaluatedProperties",
                                                       "items",
                                                       "prefixItems",
                                                       "additionalItems",
                                                       "unevaluatedItems",
                                                       "minItems",
                                                       "maxItems",
                                                       "uniqueItems",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "minLength",
                                                       "maxLength",
                                                       "pattern",
                                                       kMorePatterns,
                                                       "format",
                                                       "minimum",
                                                       "maximum",
                                                       "exclusiveMinimum",
                                                       "exclusiveMaximum",
                                                       "multipleOf",
                                                       "divisibleBy",
                                                       "disallow",
                                                       "extends"};
  return !kSay.contains(keyword);
}

namespace {

// A schema for what is valid against all of the list.
Json all_of(const Json& list) {
  Json different = Json::array();
  for (const Json& each : list) {
    if (each == false) return false;
    if (each != true && std::find(different.begin(), different.end(), each) == different.end())
      different.push_back(each);
  }
  if (different.empty()) return true;
  return different.size() == 1 ? different[0] : Json{{"allOf", different}};
}

Json object_in(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found != schema.end() && found->is_object() ? *found : Json::object();
}

Json names_in(const Json& types) { return types.is_array() ? types : Json::array({types}); }

class Merger {
 public:
  Merger(const Json& root, const std::string& where, int64_t& work) : root_(root), where_(where), work_(work) {}

  Json flat(const Json& schema, int depth) {
    constexpr int kMostDepth = 64;
    if (depth > kMostDepth) fail("{}: allOf and $ref lead to each other more than {} times", where_, kMostDepth);
    if (schema.is_boolean()) return schema;
    if (!schema.is_object()) fail("{}: expected an object, true or false among the schemas of allOf", where_);
    if (const std::optional<Json> other = with_alternatives(schema, root_, where_)) return flat(*other, depth + 1);
    Json own = schema, all = true;
    if (const auto found = schema.find("$ref"); found != schema.end()) {
      own.erase("$ref");
      all = with(all, closed(flat(referred(*found, root_, where_), depth + 1)));
    }
    if (const auto found = schema.find("allOf"); found != schema.end()) {
      own.erase("allOf");
      if (!found->is_array() || found->empty()) fail("{}.allOf: expected a list of schemas", where_);
      for (const Json& each : *found) all = with(all, closed(flat(each, depth + 1)));
    }
    if (own.contains("nullable")) {
      if (own["nullable"] == true && own.contains("type")) {
        own["type"] = names_in(own["type"]);
        own["type"].push_back("null");
      }
      own.erase("nullable");
    }
    return with(all, own);
  }

 private:
  // What a part says of properties and items that it has not looked at concerns its own ones alone.
  static Json closed(Json part) {
    for (const auto& [name, own] :
         {std::pair("unevaluatedProperties", "additionalProperties"), std::pair("unevaluatedItems", "items")}) {
      if (!part.is_object() || !part.contains(name)) continue;
      if (!part.contains(own)) part[own] = part[name];
      part.erase(name);
    }
    return part;
  }

  Json with(const Json& a, const Json& b) {
    if (a.is_boolean()) return a.get<bool>() ? b : a;
    if (b.is_boolean()) return b.get<bool>() ? a : b;
    work_ -= static_cast<int64_t>(100 * (a.size() + b.size()));
    if (work_ < 0) fail("{}: its schemas refer to too many others; make it smaller", where_);
    Json result = a;
    merge_objects(a, b, result);
    merge_items(a, b, result);
    merge_values(a, b, result);
    static const std::set<std::string, std::less<>> kTogether{
        "properties", "patternProperties", "additionalProperties", "items", "prefixItems", "const", "enum"};
    for (const auto& [name, content] : b.items()) {
      if (kTogether.contains(name) || only_describes(name)) continue;
      if (!a.contains(name)) result[name] = content;
      else if (a[name] != content) merge(name, a[name], content, result);
      if (is_impossible_) return false;
    }
    return is_impossible_ ? Json(false) : result;
  }

  void merge(const std::string& name, const Json& a, const Json& b, Json& result) {
    if (name == "type") return merge_types(a, b, result);
    if (name == "required" && a.is_array() && b.is_array()) {
      for (const Json& each : b)
        if (std::find(a.begin(), a.end(), each) == a.end()) result[name].push_back(each);
      return;
    }
    const bool numbers = a.is_number() && b.is_number();
    if (numbers && (name.starts_with("min") || name == "exclusiveMinimum")) {
      if (b.get<double>() > a.get<double>()) result[name] = b;
      return;
    }
    if (numbers && (name.starts_with("max") || name == "exclusiveMaximum")) {
      if (b.get<double>() < a.get<double>()) result[name] = b;
      return;
    }
    if (name == "multipleOf" && a.is_number_unsigned() && b.is_number_unsigned()) {
      const auto x = a.get<uint64_t>(), y = b.get<uint64_t>();
      if (x > 0 && y > 0 && x <= 100'000 && y <= 100'000) {
        result[name] = std::lcm(x, y);
        return;
      }
    }
    if (name == "pattern" && a.is_string() && b.is_string()) return add_pattern(b, result);
    if (name == kMorePatterns && b.is_array()) {
      for (const Json& each : b) add_pattern(each, result);
      return;
    }
    if (name == "format" && a.is_string() && b.is_string()) {
      const std::string_view own = pattern_of_format(a.get_ref<const std::string&>()),
                             other = pattern_of_format(b.get_ref<const std::string&>());
      if (own.empty()) result[name] = b;
      else if (!other.empty()) add_pattern(fmt::format("^(?:{})$", other), result);
      return;
    }
    if (name == "uniqueItems") {
      result[name] = a == true || b == true;
      return;
    }
    if (name == "propertyNames") {
      result[name] = all_of(Json::array({a, b}));
      return;
    }
    if (name == "anyOf" || name == "oneOf") {
      result["allOf"].push_back({{name, b}});
      return;
    }
    if (name == "allOf") {
      for (const Json& each : b) result["allOf"].push_back(each);
      return;
    }
    if (name == "not") {
      result[name] = {{"anyOf", Json::array({a, b})}};
      return;
    }
    fail("{}: allOf of schemas with different {} is not supported", where_, quoted(name));
  }

  static void add_pattern(const Json& pattern, Json& result) {
    if (result.contains("pattern") || pattern.is_string()) result[kMorePatterns].push_back(pattern);
  }

  void merge_types(const Json& a, const Json& b, Json& result) {
    Json both = Json::array();
    for (const Json& x : names_in(a))
      for (const Json& y : names_in(b)) {
        const bool whole = (x == "integer" && y == "number") || (x == "number" && y == "integer");
        const Json name = whole ? Json("integer") : x;
        if ((whole || x == y) && std::find(both.begin(), both.end(), name) == both.end()) both.push_back(name);
      }
    if (both.empty()) is_impossible_ = true;
    result["type"] = both.size() == 1 ? both[0] : both;
  }

  // const is a list of one.
  void merge_values(const Json& a, const Json& b, Json& result) {
    const auto own = listed_values(a), other = listed_values(b);
    if (!other) return;
    result.erase("const");
    Json list = Json::array();
    for (const Json* value : own ? *own : *other) {
      work_ -= own ? static_cast<int64_t>(other->size()) : 1;
      const auto is_it = [&](const Json* each) { return equal_values(*each, *value); };
      if (!own || std::any_of(other->begin(), other->end(), is_it)) list.push_back(*value);
    }
    if (list.empty()) is_impossible_ = true;
    result["enum"] = std::move(list);
  }

  // ---- objects

  static bool matches(const Json& schema, const std::string& name) {
    const Json patterns = object_in(schema, "patternProperties");
    return std::any_of(patterns.items().begin(), patterns.items().end(),
                       [&](const auto& each) { return matches_pattern(each.key(), name); });
  }

  // What a schema says of a property that it does not name. Patterns are kept, and say what they say.
  static Json of_unnamed(const Json& schema, const std::string& name) {
    const auto others = schema.find("additionalProperties");
    return others == schema.end() || matches(schema, name) ? Json(true) : *others;
  }

  void merge_objects(const Json& a, const Json& b, Json& result) {
    const Json own = object_in(a, "properties"), other = object_in(b, "properties");
    Json properties = Json::object();
    for (const auto& [name, content] : own.items())
      properties[name] = all_of(Json::array({content, other.contains(name) ? other[name] : of_unnamed(b, name)}));
    for (const auto& [name, content] : other.items())
      if (!own.contains(name)) properties[name] = all_of(Json::array({of_unnamed(a, name), content}));
    work_ -= static_cast<int64_t>(own.size() * other.size() / 8);
    Json patterns = Json::object();
    add_patterns(a, b, patterns, properties);
    add_patterns(b, a, patterns, properties);
    const auto put = [&](const char* name, Json content) {
      if (!content.empty() || a.contains(name) || b.contains(name)) result[name] = std::move(content);
    };
    put("properties", std::move(properties));
    put("patternProperties", std::move(patterns));
    if (!b.contains("additionalProperties")) return;
    result["additionalProperties"] = a.contains("additionalProperties")
                                         ? all_of(Json::array({a["additionalProperties"], b["additionalProperties"]}))
                                         : b["additionalProperties"];
  }

  void add_patterns(const Json& from, const Json& to, Json& patterns, Json& properties) {
    const Json own = object_in(from, "patternProperties"), others = object_in(to, "patternProperties"),
               named = object_in(to, "properties");
    const Json additional = to.contains("additionalProperties") ? to["additionalProperties"] : Json(true);
    for (const auto& [pattern, content] : own.items()) {
      if (patterns.contains(pattern)) continue;
      if (others.contains(pattern)) patterns[pattern] = all_of(Json::array({content, others[pattern]}));
      else if (additional == true) patterns[pattern] = content;
      else if (additional == false && others.empty()) {
        for (const auto& [name, said] : named.items())
          if (matches_pattern(pattern, name)) properties[name] = all_of(Json::array({properties[name], content}));
      } else {
        fail("{}: allOf of patternProperties and additionalProperties of another schema is not supported", where_);
      }
    }
  }

  // ---- arrays

  static Json item_of(const Json& schema, size_t i) {
    const auto first = schema.find("prefixItems"), rest = schema.find("items");
    if (first != schema.end() && first->is_array() && i < first->size()) return (*first)[i];
    return rest == schema.end() ? Json(true) : *rest;
  }

  static void merge_items(const Json& a, const Json& b, Json& result) {
    const auto count = [](const Json& schema) {
      return schema.contains("prefixItems") && schema["prefixItems"].is_array() ? schema["prefixItems"].size() : 0;
    };
    const size_t most = std::max(count(a), count(b));
    Json first = Json::array();
    for (size_t i = 0; i < most; ++i) first.push_back(all_of(Json::array({item_of(a, i), item_of(b, i)})));
    if (most > 0) result["prefixItems"] = std::move(first);
    if (a.contains("items") || b.contains("items"))
      result["items"] = all_of(Json::array({item_of(a, most), item_of(b, most)}));
  }

  const Json& root_;
  const std::string& where_;
  int64_t& work_;
  bool is_impossible_ = false;
};

}  // namespace

Json merged_schema(const Json& schema, const Json& root, const std::string& where, int64_t& work) {
  return Merger(root, where, work).flat(schema, 0);
}

}  // namespace transom::constraint
