// SPDX-License-Identifier: Apache-2.0
// Objects: named properties in the order of the schema, then others, whose names are told from the named ones.
#include <algorithm>

#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/compiler.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/validity.h"

namespace transom::constraint {

using Part = GrammarBuilder::Part;

namespace {

constexpr size_t kLongestName = 256;  // bytes, where other names are told from it

// As they stand between quotes.
TextSet set_of_names(const std::set<std::string>& names) {
  return TextSet::of([&](GrammarBuilder& builder) {
    std::vector<Part> parts;
    for (const std::string& name : names) {
      const std::string text = schema_text(name);
      parts.push_back(builder.literal(std::string_view(text).substr(1, text.size() - 2)));
    }
    return builder.either(parts);
  });
}

// Texts of plain characters that are none of the names, as one automaton: each byte of a name is a state of it, and
// behind the first byte that no name has all share one.
TextSet other_names(const std::set<std::string>& names) {
  static const TextSet plain = TextSet::of([](GrammarBuilder& builder) {
    const CodePoints characters{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7e}, {0xa0, 0xd7ff}, {0xe000, 0xffff}};
    return builder.sequence({builder.code_points(characters), builder.star(builder.code_points(characters))});
  });
  return names.empty() ? plain : plain.without(set_of_names(names));
}

TextSet set_of_pattern(const std::string& pattern) {
  return TextSet::of(
      [&](GrammarBuilder& builder) { return regex_part(builder, pattern, {.in_json = true, .anchored = false}); });
}

// The names that `not` of an object forbids.
void forbid(const Json& schema, const std::string& where, std::set<std::string>& names) {
  const bool has_one = schema.is_object() && schema.size() == 1;
  if (has_one && schema.contains("anyOf") && schema["anyOf"].is_array()) {
    for (const Json& each : schema["anyOf"]) forbid(each, where, names);
    return;
  }
  const Json required = has_one && schema.contains("required") ? schema["required"] : Json();
  if (!required.is_array() || required.size() != 1 || !required[0].is_string())
    fail("{}: of objects 'not' is supported with one name that is required, as its only keyword", where);
  names.insert(required[0].get<std::string>());
}

// Names of which the same patterns say something.
struct PatternNames {
  std::string pattern;  // one of them
  TextSet names;
  std::vector<const Json*> contents;
};

// Parts without a name in common: each pattern splits those that it shares some with.
std::vector<PatternNames> names_by_patterns(const Json& schema, const std::string& where) {
  constexpr size_t kMostParts = 64;
  std::vector<PatternNames> parts;
  if (!schema.contains("patternProperties")) return parts;
  for (const auto& [pattern, content] : schema["patternProperties"].items()) {
    const TextSet own = set_of_pattern(pattern);
    TextSet left = own;
    std::vector<PatternNames> next;
    for (PatternNames& part : parts) {
      TextSet shared = part.names.both(own);
      if (shared.empty()) {
        next.push_back(std::move(part));
        continue;
      }
      left = left.without(part.names);
      TextSet rest = part.names.without(own);
      std::vector<const Json*> contents = part.contents;
      contents.push_back(&content);
      next.push_back({pattern, std::move(shared), std::move(contents)});
      if (!rest.empty()) next.push_back({part.pattern, std::move(rest), std::move(part.contents)});
    }
    if (!left.empty()) next.push_back({pattern, std::move(left), {&content}});
    parts = std::move(next);
    if (parts.size() > kMostParts)
      fail("{}.patternProperties: more than {} parts of names that patterns share", where, kMostParts);
  }
  return parts;
}

Json all_of_contents(const std::vector<const Json*>& contents) {
  Json all = Json::array();
  for (const Json* each : contents) all.push_back(*each);
  return {{"allOf", std::move(all)}};
}

Json both_of(const Json& a, const Json& b) { return {{"allOf", Json::array({a, b})}}; }

}  // namespace

Part SchemaCompiler::object(const Json& schema, const std::string& where, int depth) {
  expect_keywords(schema, where,
                  {"properties", "required", "additionalProperties", "unevaluatedProperties", "patternProperties",
                   "minProperties", "maxProperties", "propertyNames", "not"});
  static const Json kNone = Json::object(), kAny = true;
  const auto object_at = [&](const char* name) -> const Json& {
    if (!schema.contains(name)) return kNone;
    if (!schema[name].is_object()) fail("{}.{}: expected an object", where, name);
    return schema[name];
  };
  const Json &properties = object_at("properties"), &patterns = object_at("patternProperties");
  ObjectShape shape;
  shape.least = count_of(schema, "minProperties", 0, where), shape.most = count_of(schema, "maxProperties", -1, where);
  std::vector<std::string> in_order;  // those that are required
  if (schema.contains("required")) {
    if (!schema["required"].is_array()) fail("{}.required: expected a list of names", where);
    for (const Json& name : schema["required"]) {
      if (!name.is_string()) fail("{}.required: expected a list of names", where);
      if (shape.required.insert(name.get<std::string>()).second) in_order.push_back(name.get<std::string>());
    }
  }
  std::set<std::string> forbidden;
  if (schema.contains("not") && (!schema["not"].is_object() || !schema["not"].contains("type"))) {
    forbid(schema["not"], where, forbidden);
  }
  const char* rest = schema.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
  const bool says_others = schema.contains(rest);
  const Json* others = says_others ? &schema[rest] : nullptr;
  if (!says_others && properties.empty() && patterns.empty()) {
    const bool any = shape.required.empty() && shape.least == 0 && shape.most < 0 && forbidden.empty() &&
                     !schema.contains("propertyNames");
    if (any) return any_object();
    others = &kAny;
  }
  // Properties that nothing is said of are written only where there must be some.
  const int64_t unnamed_required = std::count_if(shape.required.begin(), shape.required.end(),
                                                 [&](const std::string& name) { return !properties.contains(name); });
  if (!says_others && shape.least > static_cast<int64_t>(properties.size()) + unnamed_required) others = &kAny;
  if (!says_others && writes_others_) others = &kAny;
  if (others && *others == false) others = nullptr;
  // What is said of a name that stands in the schema.
  const auto said_of = [&](const std::string& name, const Json* content) -> const Json* {
    for (const auto& [pattern, also] : patterns.items())
      if (matches_pattern(pattern, name)) content = content ? &kept(both_of(*content, also)) : &also;
    return content;
  };
  std::set<std::string> names = forbidden;
  const auto add = [&](const std::string& name, const Json* content) {
    const bool writable =
        content && !forbidden.contains(name) &&
        !(schema.contains("propertyNames") && is_certainly_invalid(name, schema["propertyNames"], root_, work_));
    names.insert(name);
    if (writable) shape.named.emplace_back(name, content);
    return writable;
  };
  for (const auto& [name, content] : properties.items())
    if (!add(name, said_of(name, &content)) && shape.required.contains(name))
      return nothing("{}.required: the property {} is forbidden by other keywords", where, quoted(name));
  for (const std::string& name : in_order)
    if (!properties.contains(name)) {
      const Json* content = said_of(name, nullptr);
      if (!content) content = says_others ? others : &kAny;
      if (!add(name, content))
        return nothing("{}.required: {} is not among the properties, and no others are allowed", where, quoted(name));
    }
  shape.free = free_member(schema, names, others, where, depth);
  return members(shape, where, depth);
}

// A rule of a member whose name is none of those; none where there is no such member.
std::optional<uint32_t> SchemaCompiler::free_member(const Json& schema, const std::set<std::string>& names,
                                                    const Json* others, const std::string& where, int depth) {
  for (const std::string& name : names)
    if (others && name.size() > kLongestName)
      fail("{}: a property's name has {} bytes, at most {} are supported beside additionalProperties", where,
           name.size(), kLongestName);
  std::optional<TextSet> allowed;
  if (schema.contains("propertyNames") && schema["propertyNames"] != true)
    allowed = text_set(schema["propertyNames"], where + ".propertyNames", true);
  std::vector<Part> kinds;
  const auto add = [&](Part name, const Json& content, const std::string& place) {
    kinds.push_back(builder_.sequence({quoted_part(name), colon(), value(content, place, depth + 1)}));
  };
  const std::vector<PatternNames> sets = names_by_patterns(schema, where);
  for (const PatternNames& each : sets) {
    if (std::any_of(each.contents.begin(), each.contents.end(), [](const Json* one) { return *one == false; }))
      continue;
    TextSet own = each.names;
    if (!names.empty()) own = own.without(set_of_names(names));
    if (allowed) own = own.both(*allowed);
    if (!own.empty())
      add(own.part(builder_), each.contents.size() == 1 ? *each.contents[0] : kept(all_of_contents(each.contents)),
          where + ".patternProperties." + each.pattern);
  }
  if (others) {
    const std::string place = where + ".additionalProperties";
    if (sets.empty() && !allowed) {
      add(other_names(names).part(builder_), *others, place);
    } else {
      TextSet own = other_names(names);
      for (const PatternNames& each : sets) own = own.without(each.names);
      if (allowed) own = own.both(*allowed);
      if (!own.empty()) add(own.part(builder_), *others, place);
    }
  }
  if (kinds.empty()) return std::nullopt;
  const uint32_t rule = builder_.add_rule();
  builder_.define(rule, builder_.either(kinds));
  return rule;
}

// What may follow where all named properties are behind and so many have been written.
Part SchemaCompiler::free_members(const ObjectShape& shape, int64_t written, const std::string& where) {
  const int64_t missing = shape.least - written, room = shape.most < 0 ? -1 : shape.most - written;
  if (!shape.free || room == 0)
    return missing > 0 ? nothing("{}: minProperties {} is more than there may be", where, shape.least)
                       : builder_.empty();
  // A grammar does not keep names from coming twice, and two that are equal count once.
  if (missing > 1)
    return nothing("{}: minProperties {} is supported where all but one of them are named, since others may be equal",
                   where, shape.least);
  const uint32_t next = builder_.add_rule();
  builder_.define(next, builder_.sequence({comma(), builder_.call(*shape.free)}));
  std::vector<Part> all;
  if (written > 0) all.push_back(comma());
  all.push_back(builder_.call(*shape.free));
  all.push_back(builder_.repeat([&] { return builder_.call(next); }, 0, room < 0 ? -1 : room - 1, true));
  const Part some = builder_.sequence(all);
  return missing > 0 ? some : builder_.optional(some);
}

// From the last property to the first, each with rules by how many are written before it (0, 1, and on as far as they
// are counted): what may follow from there on.
Part SchemaCompiler::members(const ObjectShape& shape, const std::string& where, int depth) {
  if (shape.most >= 0 && shape.most < shape.least)
    return nothing("{}: minProperties {} is above maxProperties {}", where, shape.least, shape.most);
  const auto count = static_cast<int64_t>(shape.named.size());
  const int64_t counted = std::min(std::max<int64_t>({1, shape.least, shape.most}), std::max<int64_t>(count, 1));
  if (counted * count > kMostCount) fail("{}: so many properties are not counted", where);
  std::vector<uint32_t> from;
  for (int64_t written = 0; written <= counted; ++written) {
    from.push_back(builder_.add_rule());
    const bool reached = written <= count;
    builder_.define(from.back(), reached ? free_members(shape, written, where) : builder_.either({}));
  }
  for (int64_t i = count; i-- > 0;) {
    const auto& [name, content] = shape.named[static_cast<size_t>(i)];
    const uint32_t member = builder_.add_rule();
    builder_.define(member, builder_.sequence({builder_.literal(schema_text(name)), colon(),
                                               value(*content, where + "." + name, depth + 1)}));
    std::vector<uint32_t> here;
    for (int64_t written = 0; written <= counted; ++written) {
      std::vector<Part> ways;
      if (shape.most < 0 || written < shape.most) {
        std::vector<Part> sequence;
        if (written > 0) sequence.push_back(comma());
        sequence.push_back(builder_.call(member));
        sequence.push_back(builder_.call(from[static_cast<size_t>(std::min(written + 1, counted))]));
        ways.push_back(builder_.sequence(sequence));
      }
      if (!shape.required.contains(name)) ways.push_back(builder_.call(from[static_cast<size_t>(written)]));
      here.push_back(builder_.add_rule());
      builder_.define(here.back(), builder_.either(ways));
    }
    from = std::move(here);
  }
  return builder_.sequence({builder_.literal("{"), builder_.call(from[0]), builder_.literal("}")});
}

}  // namespace transom::constraint
