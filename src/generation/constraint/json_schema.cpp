// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "generation/constraint/characters.h"
#include "generation/constraint/regex.h"
#include "generation/constraint/schema_disjoint.h"
#include "generation/constraint/schema_facts.h"

namespace transom::constraint {
namespace {

using Part = GrammarBuilder::Part;
constexpr int kMostDepth = 64;
constexpr size_t kMostEnum = 10'000;

// What stands in a schema and changes nothing that is written.
const std::set<std::string, std::less<>> kDescriptions{
    "title",      "description",   "default",          "examples",
    "$schema",    "$id",           "$comment",         "$anchor",
    "$defs",      "definitions",   "readOnly",         "writeOnly",
    "deprecated", "discriminator", "contentMediaType", "contentEncoding",
    "strict",     "example",       "x-order"};

class Compiler {
 public:
  explicit Compiler(const Json& root) : root_(root) { builder_.add_rule(); }

  Grammar grammar(bool object_only) {
    builder_.define(0, object_only ? any_object() : value(root_, "schema", 0));
    return builder_.finish("schema");
  }

 private:
  static std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

  Part space() { return builder_.optional(builder_.literal(" ")); }
  Part comma() { return builder_.sequence({builder_.literal(","), space()}); }
  Part colon() { return builder_.sequence({builder_.literal(":"), space()}); }
  Part quoted_part(Part inside) { return builder_.sequence({builder_.literal("\""), inside, builder_.literal("\"")}); }

  // ---- any JSON, as rules that call each other

  Part any_character() {
    const auto hexadecimal = [&] {
      return builder_.either({builder_.bytes('0', '9'), builder_.bytes('a', 'f'), builder_.bytes('A', 'F')});
    };
    // Escapes of surrogates come in pairs only; they are left out, since each character has a plain form.
    std::vector<Part> short_escapes;
    for (const char c : std::string_view("\"\\/bfnrt"))
      short_escapes.push_back(builder_.bytes(static_cast<uint8_t>(c), static_cast<uint8_t>(c)));
    const Part unicode = builder_.sequence({builder_.literal("u00"), hexadecimal(), hexadecimal()});
    short_escapes.push_back(unicode);
    return builder_.either({builder_.code_points({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}}),
                            builder_.sequence({builder_.literal("\\"), builder_.either(short_escapes)})});
  }

  uint32_t rule(const char* name, Part (Compiler::*make)()) {
    const auto found = named_.find(name);
    if (found != named_.end()) return found->second;
    const uint32_t added = named_[name] = builder_.add_rule();
    builder_.define(added, (this->*make)());
    return added;
  }
  Part any_string() { return builder_.call(rule("string", &Compiler::make_string)); }
  Part any_value() { return builder_.call(rule("value", &Compiler::make_value)); }
  Part any_object() { return builder_.call(rule("object", &Compiler::make_object)); }
  Part any_array() { return builder_.call(rule("array", &Compiler::make_array)); }
  Part make_string() { return quoted_part(builder_.star(any_character())); }
  Part make_value() {
    return builder_.either({any_object(), any_array(), any_string(), number_part(builder_, {}),
                            builder_.literal("true"), builder_.literal("false"), builder_.literal("null")});
  }
  Part make_object() {
    // No key twice is more than a grammar can keep; readers of JSON take the last one.
    const auto member = [&] { return builder_.sequence({any_string(), colon(), any_value()}); };
    const Part members = builder_.sequence({member(), builder_.star(builder_.sequence({comma(), member()}))});
    return builder_.sequence({builder_.literal("{"), builder_.optional(members), builder_.literal("}")});
  }
  Part make_array() {
    const Part items = builder_.sequence({any_value(), builder_.star(builder_.sequence({comma(), any_value()}))});
    return builder_.sequence({builder_.literal("["), builder_.optional(items), builder_.literal("]")});
  }

  // ---- schemas

  void expect_keywords(const Json& schema, const std::string& where, std::initializer_list<std::string_view> known) {
    for (const auto& [name, content] : schema.items()) {
      if (kDescriptions.contains(name) || std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (name.starts_with("x-")) continue;  // of tools that read schemas, by OpenAPI's rule
      if (name == "type" || name == "nullable" || (name == "uniqueItems" && content == false)) continue;
      // Keywords of other types say nothing about this one.
      static const std::map<std::string, std::string, std::less<>> kOwners{{"properties", "object"},
                                                                           {"required", "object"},
                                                                           {"additionalProperties", "object"},
                                                                           {"patternProperties", "object"},
                                                                           {"minProperties", "object"},
                                                                           {"maxProperties", "object"},
                                                                           {"propertyNames", "object"},
                                                                           {"items", "array"},
                                                                           {"prefixItems", "array"},
                                                                           {"minItems", "array"},
                                                                           {"maxItems", "array"},
                                                                           {"uniqueItems", "array"},
                                                                           {"contains", "array"},
                                                                           {"minLength", "string"},
                                                                           {"maxLength", "string"},
                                                                           {"pattern", "string"},
                                                                           {"format", "string"},
                                                                           {"minimum", "number"},
                                                                           {"maximum", "number"},
                                                                           {"exclusiveMinimum", "number"},
                                                                           {"exclusiveMaximum", "number"},
                                                                           {"multipleOf", "number"}};
      const auto owner = kOwners.find(name);
      if (owner != kOwners.end() && current_type_ != owner->second &&
          !(current_type_ == "integer" && owner->second == "number"))
        continue;
      fail("{}: the keyword {} is not supported", where, quoted(name));
    }
  }

  Part value(const Json& schema, const std::string& where, int depth) {
    if (depth > kMostDepth) fail("{}: nested deeper than {} levels", where, kMostDepth);
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fail("{}: false allows nothing", where);
      return any_value();
    }
    if (!schema.is_object()) fail("{}: expected an object or true, found {}", where, quoted(text_of(schema)));
    if (schema.contains("$ref")) return reference(schema, where);
    if (schema.contains("const")) {
      if (is_certainly_invalid(schema["const"], schema, root_, work_))
        fail("{}.const: the value is not valid against the keywords beside it", where);
      return builder_.literal(text_of(schema["const"]));
    }
    if (schema.contains("enum")) return enumeration(schema, where);
    for (const char* name : {"anyOf", "oneOf", "allOf"})
      if (schema.contains(name)) return combination(schema, name, where, depth);
    std::vector<std::string> types = types_of(schema, where);
    if (types.empty()) {
      for (const auto& [name, content] : schema.items())
        if (!kDescriptions.contains(name))
          fail("{}: the keyword {} is not supported without a type", where, quoted(name));
      return any_value();
    }
    std::vector<Part> parts;
    for (const std::string& type : types) parts.push_back(of_type(type, schema, where, depth));
    return builder_.either(parts);
  }

  std::vector<std::string> types_of(const Json& schema, const std::string& where) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      const Json list = type.is_array() ? type : Json::array({type});
      for (const Json& each : list) {
        if (!each.is_string())
          fail("{}.type: expected a name or a list of names, found {}", where, quoted(text_of(type)));
        types.push_back(each.get<std::string>());
      }
      if (types.empty()) fail("{}.type: an empty list allows nothing", where);
    } else if (schema.contains("properties") || schema.contains("additionalProperties") ||
               schema.contains("required")) {
      types = {"object"};
    } else if (schema.contains("items") || schema.contains("prefixItems")) {
      types = {"array"};
    } else if (schema.contains("pattern") || schema.contains("minLength") || schema.contains("maxLength") ||
               schema.contains("format")) {
      types = {"string"};
    } else if (schema.contains("minimum") || schema.contains("maximum") || schema.contains("exclusiveMinimum") ||
               schema.contains("exclusiveMaximum")) {
      types = {"number"};
    }
    if (schema.contains("nullable") && schema["nullable"] == true && !types.empty()) types.emplace_back("null");
    return types;
  }

  Part of_type(const std::string& type, const Json& schema, const std::string& where, int depth) {
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

  Part enumeration(const Json& schema, const std::string& where) {
    const Json& list = schema["enum"];
    if (!list.is_array() || list.empty()) fail("{}.enum: expected a list of values", where);
    if (list.size() > kMostEnum) fail("{}.enum: expected at most {} values, found {}", where, kMostEnum, list.size());
    std::vector<Part> parts;
    for (const Json& each : list)
      if (!is_certainly_invalid(each, schema, root_, work_)) parts.push_back(builder_.literal(text_of(each)));
    if (parts.empty()) fail("{}.enum: no value of the list is valid against the keywords beside it", where);
    return builder_.either(parts);
  }

  // The part of the schema that a JSON pointer names, as a rule of its own, which may call itself.
  Part reference(const Json& schema, const std::string& where) {
    const Json& given = schema["$ref"];
    if (!given.is_string()) fail("{}.$ref: expected a string", where);
    const auto name = given.get<std::string>();
    for (const auto& [key, content] : schema.items())
      if (key != "$ref" && !kDescriptions.contains(key))
        fail("{}: the keyword {} beside $ref is not supported", where, quoted(key));
    if (!name.starts_with("#")) fail("{}.$ref: expected a place in this schema (#/...), found {}", where, quoted(name));
    const auto found = references_.find(name);
    if (found != references_.end()) return builder_.call(found->second);
    const Json* target = &root_;
    try {
      if (name != "#") target = &root_.at(Json::json_pointer(name.substr(1)));
    } catch (const Json::exception&) {
      fail("{}.$ref: there is no {}", where, quoted(name));
    }
    if (references_.size() >= 1000) fail("{}: more than 1000 references", where);
    const uint32_t rule = references_[name] = builder_.add_rule();
    builder_.define(rule, value(*target, name, static_cast<int>(++nested_references_)));
    --nested_references_;
    return builder_.call(rule);
  }

  Part combination(const Json& schema, const std::string& name, const std::string& where, int depth) {
    const Json& list = schema[name];
    if (!list.is_array() || list.empty()) fail("{}.{}: expected a list of schemas", where, name);
    for (const auto& [key, content] : schema.items())
      if (key != name && !kDescriptions.contains(key) && !(key == "type" && list.size() >= 1))
        fail("{}: the keyword {} beside {} is not supported", where, quoted(key), name);
    if (name == "allOf" && list.size() > 1) fail("{}: allOf of more than one schema is not supported", where);
    const Json* type = schema.contains("type") ? &schema["type"] : nullptr;
    if (name == "oneOf" && !are_disjoint(list, type, root_, work_))
      fail(
          "{}: oneOf is supported where no value can be valid against two of its schemas: by their types, constants, "
          "limits, patterns or required properties; here two may both hold; use anyOf",
          where);
    std::vector<Part> parts;
    for (size_t i = 0; i < list.size(); ++i) {
      Json each = list[i];
      if (schema.contains("type") && each.is_object() && !each.contains("type") && !each.contains("$ref"))
        each["type"] = schema["type"];
      kept_.push_back(std::make_unique<Json>(std::move(each)));
      parts.push_back(value(*kept_.back(), fmt::format("{}.{}[{}]", where, name, i), depth + 1));
    }
    return builder_.either(parts);
  }

  // ---- objects

  Part object(const Json& schema, const std::string& where, int depth) {
    expect_keywords(schema, where, {"properties", "required", "additionalProperties"});
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    if (!properties.is_object()) fail("{}.properties: expected an object", where);
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) fail("{}.required: expected a list of names", where);
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) fail("{}.required: expected a list of names", where);
        required.insert(name.get<std::string>());
      }
    }
    const bool named = schema.contains("additionalProperties");
    const Json* others = named ? &schema["additionalProperties"] : nullptr;
    if (others && others->is_boolean() && !others->get<bool>()) others = nullptr;
    if (!named && properties.empty() && required.empty()) return any_object();
    std::vector<std::pair<std::string, const Json*>> list;
    for (const auto& [name, content] : properties.items()) list.emplace_back(name, &content);
    static const Json kAny = true;
    for (const std::string& name : required)
      if (!properties.contains(name)) {
        if (!named && properties.empty()) others = &kAny;
        else if (!others)
          fail("{}.required: {} is not among the properties, and no others are allowed", where, quoted(name));
        list.emplace_back(name, others);
      }
    return members(list, required, others, where, depth);
  }

  // Two rows of places: nothing written yet, and something written, which a comma follows.
  Part members(const std::vector<std::pair<std::string, const Json*>>& list, const std::set<std::string>& required,
               const Json* others, const std::string& where, int depth) {
    std::set<std::string> names;
    for (const auto& [name, content] : list) names.insert(name);
    for (const std::string& name : names)
      if (others && name.size() > kLongestName)
        fail("{}: a property's name has {} bytes, at most {} are supported beside additionalProperties", where,
             name.size(), kLongestName);
    // From the last to the first, each a rule: nothing(i) and something(i) are what may follow from property i on.
    uint32_t nothing = builder_.add_rule(), something = builder_.add_rule();
    if (others) {
      const auto member = [&] {
        return builder_.sequence(
            {other_key(names), colon(), value(*others, where + ".additionalProperties", depth + 1)});
      };
      const uint32_t rule = builder_.add_rule();
      builder_.define(rule, member());
      builder_.define(something, builder_.star(builder_.sequence({comma(), builder_.call(rule)})));
      builder_.define(nothing,
                      builder_.optional(builder_.sequence(
                          {builder_.call(rule), builder_.star(builder_.sequence({comma(), builder_.call(rule)}))})));
    } else {
      builder_.define(something, builder_.empty());
      builder_.define(nothing, builder_.empty());
    }
    for (size_t i = list.size(); i-- > 0;) {
      const auto& [name, content] = list[i];
      const uint32_t member = builder_.add_rule();
      builder_.define(member, builder_.sequence({builder_.literal(text_of(Json(name))), colon(),
                                                 value(*content, where + "." + name, depth + 1)}));
      const bool optional = !required.contains(name);
      const auto then = [&](bool first, uint32_t without) {
        std::vector<Part> sequence;
        if (!first) sequence.push_back(comma());
        sequence.push_back(builder_.call(member));
        sequence.push_back(builder_.call(something));
        const Part with = builder_.sequence(sequence);
        return optional ? builder_.either({with, builder_.call(without)}) : with;
      };
      const Part first = then(true, nothing), later = then(false, something);
      nothing = builder_.add_rule(), something = builder_.add_rule();
      builder_.define(nothing, first);
      builder_.define(something, later);
    }
    return builder_.sequence({builder_.literal("{"), builder_.call(nothing), builder_.literal("}")});
  }

  // Plain characters, and none of the names: a text that leaves their tree, or ends inside of it.
  Part other_key(const std::set<std::string>& names) {
    const CodePoints plain{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7e}, {0xa0, 0xd7ff}, {0xe000, 0xffff}};
    return quoted_part(other_text(std::vector<std::string_view>(names.begin(), names.end()), 0, plain));
  }

  // The rest of a text of which `at` bytes are those that all the names share. It calls itself for each character.
  Part other_text(const std::vector<std::string_view>& names, size_t at, const CodePoints& plain) {
    std::map<uint32_t, std::vector<std::string_view>> below;
    bool is_name = false;
    for (const std::string_view name : names) {
      if (at >= name.size()) {
        is_name = true;
        continue;
      }
      size_t next = at;
      below[next_character(name, next)].push_back(name);
    }
    CodePoints free;
    for (auto [low, high] : plain) {
      for (const auto& [character, list] : below) {
        if (character < low || character > high) continue;
        if (character > low) free.emplace_back(low, character - 1);
        low = character + 1;
      }
      if (low <= high) free.emplace_back(low, high);
    }
    std::vector<Part> parts;
    if (!is_name && at > 0) parts.push_back(builder_.empty());
    if (!free.empty())
      parts.push_back(builder_.sequence({builder_.code_points(free), builder_.star(builder_.code_points(plain))}));
    for (const auto& [character, list] : below) {
      size_t next = at;
      next_character(list[0], next);
      const bool writable = std::any_of(plain.begin(), plain.end(), [c = character](const auto& range) {
        return c >= range.first && c <= range.second;
      });
      if (writable)
        parts.push_back(
            builder_.sequence({builder_.code_points({{character, character}}), other_text(list, next, plain)}));
    }
    return builder_.either(parts);
  }

  // ---- arrays, strings, numbers

  int64_t count_of(const Json& schema, const char* name, int64_t otherwise, const std::string& where) {
    if (!schema.contains(name)) return otherwise;
    const Json& value = schema[name];
    const bool whole = value.is_number() && value.get<double>() == std::floor(value.get<double>()) &&
                       value.get<double>() >= 0 && value.get<double>() < 1e9;
    if (!whole) fail("{}.{}: expected a whole number from 0 on, found {}", where, name, quoted(text_of(value)));
    return static_cast<int64_t>(value.get<double>());
  }

  Part array(const Json& schema, const std::string& where, int depth) {
    expect_keywords(schema, where, {"items", "prefixItems", "minItems", "maxItems"});
    static const Json kAny = true;
    std::vector<const Json*> first;
    if (schema.contains("prefixItems")) {
      if (!schema["prefixItems"].is_array()) fail("{}.prefixItems: expected a list", where);
      for (const Json& each : schema["prefixItems"]) first.push_back(&each);
    }
    const Json* rest = schema.contains("items") ? &schema["items"] : &kAny;
    const bool closed = rest->is_boolean() && !rest->get<bool>();
    const int64_t least = count_of(schema, "minItems", 0, where);
    int64_t most = count_of(schema, "maxItems", -1, where);
    const auto prefix = static_cast<int64_t>(first.size());
    if (closed) most = most < 0 ? prefix : std::min(most, prefix);
    if (most >= 0 && most < least) fail("{}: minItems {} is above maxItems {}", where, least, most);
    if (most == 0) return builder_.literal("[]");
    uint32_t item = 0;
    if (!closed) {
      item = builder_.add_rule();
      builder_.define(item, value(*rest, where + ".items", depth + 1));
    }
    // The items one by one, as far as they are counted; then any number.
    std::vector<uint32_t> rules;
    for (size_t i = 0; i < first.size(); ++i) {
      rules.push_back(builder_.add_rule());
      builder_.define(rules.back(), value(*first[i], fmt::format("{}.prefixItems[{}]", where, i), depth + 1));
    }
    const int64_t counted = std::max<int64_t>({least, prefix, most, 1});
    if (counted > static_cast<int64_t>(GrammarBuilder::kMostRepetitions))
      fail("{}: more than {} items are not supported", where, GrammarBuilder::kMostRepetitions);
    const auto rule_at = [&](int64_t i) { return i < prefix ? rules[static_cast<size_t>(i)] : item; };
    const int64_t last = most < 0 ? counted : std::min(counted, most);
    // Behind item i: the end if that is enough, or a comma and the next.
    Part tail = most < 0 ? builder_.star(builder_.sequence({comma(), builder_.call(closed ? rules.back() : item)}))
                         : builder_.empty();
    for (int64_t i = last - 1; i >= 0; --i) {
      std::vector<Part> sequence;
      if (i > 0) sequence.push_back(comma());
      sequence.push_back(builder_.call(rule_at(i)));
      sequence.push_back(tail);
      tail = builder_.sequence(sequence);
      if (i >= least) tail = builder_.optional(tail);
    }
    return builder_.sequence({builder_.literal("["), tail, builder_.literal("]")});
  }

  Part string(const Json& schema, const std::string& where) {
    expect_keywords(schema, where, {"minLength", "maxLength", "pattern", "format"});
    if (schema.contains("pattern")) {
      if (schema.contains("minLength") || schema.contains("maxLength") || schema.contains("format"))
        fail("{}: pattern beside minLength, maxLength or format is not supported", where);
      if (!schema["pattern"].is_string()) fail("{}.pattern: expected a string", where);
      return quoted_part(
          regex_part(builder_, schema["pattern"].get<std::string>(), {.in_json = true, .anchored = false}));
    }
    if (schema.contains("format") && schema["format"].is_string() && !schema.contains("minLength") &&
        !schema.contains("maxLength"))
      if (const std::string_view pattern = pattern_of_format(schema["format"].get<std::string>()); !pattern.empty())
        return quoted_part(regex_part(builder_, pattern, {.in_json = true}));
    // Other formats describe only.
    const int64_t least = count_of(schema, "minLength", 0, where), most = count_of(schema, "maxLength", -1, where);
    if (least == 0 && most < 0) return any_string();
    return quoted_part(builder_.repeat([&] { return any_character(); }, least, most));
  }

  Part number(const Json& schema, const std::string& where, bool whole) {
    expect_keywords(schema, where,
                    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", whole ? "multipleOf" : "minimum"});
    if (schema.contains("multipleOf") && schema["multipleOf"] != 1)
      fail("{}: multipleOf other than 1 is not supported", where);
    const IntegerRange range = whole_limits(schema, where);
    return whole ? integer_part(builder_, range) : number_part(builder_, range);
  }

  static constexpr size_t kLongestName = 256;  // bytes, where other names are told from it
  const Json& root_;
  GrammarBuilder builder_;
  std::map<std::string, uint32_t> named_, references_;
  std::vector<std::unique_ptr<Json>> kept_;
  std::string current_type_;
  size_t nested_references_ = 0;
  int64_t work_ = 2'000'000;  // comparisons of values and schemas, so that none takes long
};

}  // namespace

Grammar json_schema_grammar(const Json& schema) { return Compiler(schema).grammar(false); }
Grammar json_object_grammar() {
  static const Json kAny = true;
  return Compiler(kAny).grammar(true);
}

}  // namespace transom::constraint
