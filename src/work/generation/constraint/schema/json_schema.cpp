// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/json_schema.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "work/generation/constraint/schema/compiler.h"
#include "work/generation/constraint/schema/conditions.h"
#include "work/generation/constraint/schema/disjoint.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/merge.h"
#include "work/generation/constraint/schema/negation.h"
#include "work/generation/constraint/schema/validity.h"

namespace transom::constraint {

using Part = GrammarBuilder::Part;

namespace {

constexpr int kMostSchemaDepth = 64;
constexpr size_t kMostEnum = 10'000;

// Which type a keyword is about.
const std::map<std::string, std::string, std::less<>> kOwners{{"properties", "object"},
                                                              {"required", "object"},
                                                              {"additionalProperties", "object"},
                                                              {"unevaluatedProperties", "object"},
                                                              {"patternProperties", "object"},
                                                              {"minProperties", "object"},
                                                              {"maxProperties", "object"},
                                                              {"propertyNames", "object"},
                                                              {"dependentRequired", "object"},
                                                              {"items", "array"},
                                                              {"prefixItems", "array"},
                                                              {"additionalItems", "array"},
                                                              {"minItems", "array"},
                                                              {"maxItems", "array"},
                                                              {"uniqueItems", "array"},
                                                              {"contains", "array"},
                                                              {"minContains", "array"},
                                                              {"maxContains", "array"},
                                                              {"unevaluatedItems", "array"},
                                                              {"minLength", "string"},
                                                              {"maxLength", "string"},
                                                              {"pattern", "string"},
                                                              {kMorePatterns, "string"},
                                                              {"format", "string"},
                                                              {"minimum", "number"},
                                                              {"maximum", "number"},
                                                              {"exclusiveMinimum", "number"},
                                                              {"exclusiveMaximum", "number"},
                                                              {"multipleOf", "number"}};
const std::vector<std::string> kTypes{"object", "array", "string", "number", "boolean", "null"};

// What `not` forbids where it has one keyword that is kept: the names of types, or a property that is required.
const Json* sole(const Json& schema, const char* keyword) {
  const auto found = schema.find("not");
  if (found == schema.end() || !found->is_object() || found->size() != 1 || !found->contains(keyword)) return nullptr;
  return &(*found)[keyword];
}

// The keyword about types that is written like this one but for the case of its letters; "" where there is none.
std::string keyword_meant_by(const std::string& name) {
  const auto lowered = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  if (!only_describes(name)) return "";
  for (const auto& [keyword, owner] : kOwners)
    if (keyword.size() == name.size() && lowered(keyword) == lowered(name)) return keyword;
  return "";
}

// What is said of the listed values beside the list.
Json without_lists(const Json& schema, const char* list) {
  Json beside = schema;
  beside.erase(list);
  return beside;
}

// Whether what it forbids are values of other types.
bool says_nothing_of(const Json& forbidden, const std::string& type) {
  if (!forbidden.is_object() || forbidden.size() != 1) return false;
  const std::string name = type == "integer" ? "number" : type;
  if (const auto values = listed_values(forbidden))
    return std::none_of(values->begin(), values->end(), [&](const Json* each) { return type_of(*each) == name; });
  return false;
}

// Those that `not` leaves where nothing else says types, as far as the grammar keeps it.
std::vector<std::string> types_beside_not(const Json& schema) {
  const auto found = schema.find("not");
  if (found == schema.end() || !found->is_object()) return {};
  if (found->contains("required") || found->contains("anyOf")) return {"object"};
  if (found->contains("pattern")) return {"string"};
  std::vector<std::string> types = kTypes;
  if (const auto values = listed_values(*found))
    for (const Json* each : *values)
      if (!each->is_string()) std::erase(types, type_of(*each));
  return types;
}

}  // namespace

std::string schema_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

SchemaCompiler::SchemaCompiler(const Json& root, bool writes_others) : root_(root), writes_others_(writes_others) {
  builder_.add_rule();
}

Grammar SchemaCompiler::grammar(bool object_only) {
  builder_.define(0, object_only ? any_object() : value(root_, "schema", 0));
  return builder_.finish("schema", why_nothing_);
}

const Json& SchemaCompiler::kept(Json schema) {
  kept_.push_back(std::make_unique<Json>(std::move(schema)));
  return *kept_.back();
}

void SchemaCompiler::expect_keywords(const Json& schema, const std::string& where,
                                     std::initializer_list<std::string_view> known) {
  for (const auto& [name, content] : schema.items()) {
    if (only_describes(name) || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (name == "type" || name == "nullable" || (name == "uniqueItems" && content == false)) continue;
    if (name == "not" && sole(schema, "type")) continue;  // taken from the types already
    if (name == "not" && says_nothing_of(content, current_type_)) continue;
    // Keywords of other types say nothing about this one.
    const auto owner = kOwners.find(name);
    if (owner != kOwners.end() && current_type_ != owner->second &&
        !(current_type_ == "integer" && owner->second == "number"))
      continue;
    fail("{}: the keyword {} is not supported", where, quoted(name));
  }
}

Part SchemaCompiler::value(const Json& schema, const std::string& where, int depth) {
  if (depth > kMostSchemaDepth) fail("{}: nested deeper than {} levels", where, kMostSchemaDepth);
  if (schema.is_boolean()) return schema.get<bool>() ? any_value() : nothing("{}: false allows nothing", where);
  if (!schema.is_object()) fail("{}: expected an object or true, found {}", where, quoted(schema_text(schema)));
  for (const auto& [name, content] : schema.items())
    if (const std::string meant = keyword_meant_by(name); !meant.empty())
      fail("{}: {} is no keyword; {} is one", where, quoted(name), quoted(meant));
  if (std::optional<Json> other = with_alternatives(schema, root_, where))
    return value(kept(std::move(*other)), where, depth + 1);
  if (schema.contains("$ref")) {
    const bool alone = std::all_of(schema.items().begin(), schema.items().end(),
                                   [](const auto& each) { return each.key() == "$ref" || only_describes(each.key()); });
    return alone ? reference(schema, where) : merged(schema, where, depth);
  }
  return schema.contains("allOf") ? merged(schema, where, depth) : plain(schema, where, depth);
}

// Equal ones share a rule, so that schemas that lead back to themselves end.
Part SchemaCompiler::merged(const Json& schema, const std::string& where, int depth) {
  const std::string key = "merged " + schema_text(schema);
  const auto found = references_.find(key);
  if (found != references_.end()) return builder_.call(found->second);
  if (references_.size() >= 1000) fail("{}: more than 1000 references", where);
  const Json& flat = kept(merged_schema(schema, root_, where, work_));
  const uint32_t rule = references_[key] = builder_.add_rule();
  if (flat == false) builder_.define(rule, nothing("{}: its schemas allow nothing together", where));
  else builder_.define(rule, flat.is_object() ? plain(flat, where, depth + 1) : value(flat, where, depth + 1));
  return builder_.call(rule);
}

Part SchemaCompiler::plain(const Json& schema, const std::string& where, int depth) {
  if (schema.contains("const")) {
    if (!may_be_written(schema["const"], without_lists(schema, "const"), where))
      return nothing("{}.const: the value is not valid against the keywords beside it", where);
    return literal_value(schema["const"]);
  }
  if (schema.contains("enum")) return enumeration(schema, where);
  for (const char* name : {"anyOf", "oneOf"})
    if (schema.contains(name)) return combination(schema, name, where, depth);
  const std::vector<std::string> types = types_of(schema, where);
  if (types.empty()) {
    for (const auto& [name, content] : schema.items())
      if (!only_describes(name)) fail("{}: the keyword {} is not supported without a type", where, quoted(name));
    return any_value();
  }
  std::vector<Part> parts;
  for (const std::string& type : types) parts.push_back(of_type(type, schema, where, depth));
  return builder_.either(parts);
}

std::vector<std::string> SchemaCompiler::types_of(const Json& schema, const std::string& where) {
  std::vector<std::string> types;
  const auto names_of = [&](const Json& type, const char* what) {
    std::vector<std::string> names;
    for (const Json& each : type.is_array() ? type : Json::array({type})) {
      if (!each.is_string())
        fail("{}.{}: expected a name or a list of names, found {}", where, what, quoted(schema_text(type)));
      names.push_back(each.get<std::string>());
    }
    return names;
  };
  if (schema.contains("type")) {
    types = names_of(schema["type"], "type");
    if (types.empty()) fail("{}.type: an empty list allows nothing", where);
  } else {
    for (const std::string& type : kTypes)
      if (types.empty())
        for (const auto& [name, owner] : kOwners)
          if (owner == type && schema.contains(name)) {
            types = {type};
            break;
          }
    if (types.empty() && sole(schema, "type")) types = kTypes;
    if (types.empty()) types = types_beside_not(schema);
  }
  if (schema.contains("nullable") && schema["nullable"] == true && !types.empty()) types.emplace_back("null");
  if (const Json* forbidden = sole(schema, "type"))
    for (const std::string& name : names_of(*forbidden, "not.type")) {
      if (name == "integer" && std::find(types.begin(), types.end(), "number") != types.end())
        fail("{}: numbers that are not integers are not supported", where);
      std::erase_if(types,
                    [&](const std::string& type) { return type == name || (name == "number" && type == "integer"); });
    }
  return types;
}

Part SchemaCompiler::of_type(const std::string& type, const Json& schema, const std::string& where, int depth) {
  current_type_ = type;
  if (type == "object") return object(schema, where, depth);
  if (type == "array") return array(schema, where, depth);
  if (type == "string") return string(schema, where);
  if (type == "integer" || type == "number") return number(schema, where, type == "integer");
  expect_keywords(schema, where, {});
  if (type == "boolean") return builder_.either({builder_.literal("true"), builder_.literal("false")});
  if (type == "null") return builder_.literal("null");
  fail("{}.type: expected object, array, string, integer, number, boolean or null, found {}", where, quoted(type));
}

// Of a listed value.
bool SchemaCompiler::may_be_written(const Json& value, const Json& schema, const std::string& where) {
  const std::optional<bool> valid = is_valid(value, schema, root_, work_);
  if (!valid)
    fail("{}: whether the listed {} is valid is not known; leave out what stands beside it", where,
         quoted(schema_text(value)));
  return *valid;
}

Part SchemaCompiler::enumeration(const Json& schema, const std::string& where) {
  const Json& list = schema["enum"];
  if (!list.is_array() || list.empty()) fail("{}.enum: expected a list of values", where);
  if (list.size() > kMostEnum) fail("{}.enum: expected at most {} values, found {}", where, kMostEnum, list.size());
  std::vector<Part> parts;
  const Json beside = without_lists(schema, "enum");
  for (const Json& each : list)
    if (may_be_written(each, beside, where)) parts.push_back(literal_value(each));
  if (parts.empty()) return nothing("{}.enum: no value of the list is valid against the keywords beside it", where);
  return builder_.either(parts);
}

// The part of the schema that a JSON pointer names, as a rule of its own, which may call itself.
Part SchemaCompiler::reference(const Json& schema, const std::string& where) {
  const Json& target = referred(schema["$ref"], root_, where);
  const auto name = schema["$ref"].get<std::string>();
  const auto found = references_.find(name);
  if (found != references_.end()) return builder_.call(found->second);
  if (references_.size() >= 1000) fail("{}: more than 1000 references", where);
  const uint32_t rule = references_[name] = builder_.add_rule();
  builder_.define(rule, value(target, name, static_cast<int>(++nested_references_)));
  --nested_references_;
  return builder_.call(rule);
}

// What stands beside the list holds for each of its schemas.
Part SchemaCompiler::combination(const Json& schema, const std::string& name, const std::string& where, int depth) {
  const Json& list = schema[name];
  if (!list.is_array() || list.empty()) fail("{}.{}: expected a list of schemas", where, name);
  Json beside = schema;
  beside.erase(name);
  for (const auto& [key, content] : schema.items())
    if (only_describes(key)) beside.erase(key);
  std::vector<Json> each;
  for (const Json& one : list) each.push_back(beside.empty() ? one : Json{{"allOf", Json::array({beside, one})}});
  if (name == "oneOf") leave_one(list, beside, where, each);
  std::vector<Part> parts;
  for (size_t i = 0; i < list.size(); ++i)
    parts.push_back(value(each[i] == list[i] ? list[i] : kept(std::move(each[i])),
                          fmt::format("{}.{}[{}]", where, name, i), depth + 1));
  return builder_.either(parts);
}

// Takes from each schema of oneOf what is valid against another one, where that is not seen to be nothing.
void SchemaCompiler::leave_one(const Json& list, const Json& beside, const std::string& where,
                               std::vector<Json>& each) {
  constexpr size_t kMostNegated = 64;
  std::vector<Json> whole;  // what is written, with what stands beside
  for (const Json& one : each) whole.push_back(beside.empty() ? one : kept(merged_schema(one, root_, where, work_)));
  const Json* type = beside.contains("type") ? &beside["type"] : nullptr;
  std::vector<std::optional<Json>> opposites(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    Json all = Json::array({each[i]});
    for (size_t j = 0; j < list.size(); ++j) {
      if (i == j || excludes(whole[i], type, list[j], {root_, work_, writes_others_})) continue;
      if (!opposites[j] && list.size() <= kMostNegated) opposites[j] = negated(list[j], root_);
      if (!opposites[j])
        fail(
            "{}: oneOf is supported where no value can be valid against two of its schemas, by their types, constants, "
            "limits, patterns or properties, or where one can be left out of the other; here [{}] and [{}] may both "
            "hold; use anyOf",
            where, i, j);
      all.push_back(*opposites[j]);
    }
    if (all.size() == 1) continue;
    each[i] = {{"allOf", std::move(all)}};
    // The opposites may leave out more than the others allow.
    if (merged_schema(each[i], root_, where, work_) == false)
      fail("{}: of oneOf nothing is left of [{}] without what the others allow, as far as that is known; use anyOf",
           where, i);
  }
}

int64_t SchemaCompiler::count_of(const Json& schema, const char* name, int64_t otherwise, const std::string& where) {
  if (!schema.contains(name)) return otherwise;
  const Json& value = schema[name];
  const bool whole = value.is_number() && value.get<double>() == std::floor(value.get<double>()) &&
                     value.get<double>() >= 0 && value.get<double>() < 1e18;
  if (!whole) fail("{}.{}: expected a whole number from 0 on, found {}", where, name, quoted(schema_text(value)));
  const auto count = static_cast<int64_t>(value.get<double>());
  if (count > Counter::kMost && std::string_view(name).starts_with("min"))
    fail("{}.{}: expected at most {}, found {}", where, name, Counter::kMost, count);
  return count;
}

Grammar json_schema_grammar(const Json& schema, bool writes_others) {
  return SchemaCompiler(schema, writes_others).grammar(false);
}
Grammar json_object_grammar() {
  static const Json kAny = true;
  return SchemaCompiler(kAny).grammar(true);
}

}  // namespace transom::constraint
