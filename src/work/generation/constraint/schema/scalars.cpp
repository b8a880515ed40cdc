// SPDX-License-Identifier: Apache-2.0
// Strings, by their patterns, lengths and formats; numbers, by their limits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/compiler.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/json_schema.h"
#include "work/generation/constraint/schema/merge.h"

namespace transom::constraint {

using Part = GrammarBuilder::Part;

namespace {

// The patterns that a string matches, its format's among them.
std::vector<std::string> patterns_of(const Json& schema, const std::string& where) {
  std::vector<std::string> patterns;
  const auto add = [&](const Json& pattern) {
    if (!pattern.is_string()) fail("{}.pattern: expected a string", where);
    patterns.push_back(pattern.get<std::string>());
  };
  if (schema.contains("pattern")) add(schema["pattern"]);
  if (schema.contains(kMorePatterns))
    for (const Json& each : schema[kMorePatterns]) add(each);
  if (schema.contains("format") && schema["format"].is_string())
    if (const std::string_view known = pattern_of_format(schema["format"].get_ref<const std::string&>());
        !known.empty())
      patterns.push_back(fmt::format("^(?:{})$", known));
  return patterns;  // other formats describe only
}

Part pattern_part(GrammarBuilder& builder, const std::string& pattern) {
  return regex_part(builder, pattern, {.in_json = true, .anchored = false});
}

TextSet literals(const std::vector<const Json*>& values) {
  return TextSet::of([&](GrammarBuilder& builder) {
    std::vector<Part> parts;
    for (const Json* value : values) {
      if (!value->is_string()) continue;
      const std::string text = schema_text(*value);
      parts.push_back(builder.literal(std::string_view(text).substr(1, text.size() - 2)));
    }
    return builder.either(parts);
  });
}

// Strings of so many characters, whatever they are: characters are counted by their first bytes and escapes, so that
// what they are is left to another set. Of names, which are told from others; other texts are counted as they are read.
TextSet lengths(int64_t least, int64_t most) {
  constexpr int64_t kMostCounted = 3000;
  constexpr uint32_t kOfOne = 9;  // states of a character: its begin, bytes to come (3), an escape, its digits (4)
  if (std::max(least, most) > kMostCounted) fail("lengths of names above {} are not supported", kMostCounted);
  const int64_t count = most < 0 ? least : most;
  std::vector<GrammarBuilder::State> states(static_cast<size_t>(count + 1) * kOfOne);
  for (int64_t i = 0; i <= count; ++i) {
    const uint32_t at = static_cast<uint32_t>(i) * kOfOne;
    states[at].ends = i >= least;
    if (i == count && most >= 0) break;
    const uint32_t next = i == count ? at : at + kOfOne;
    states[at].edges = {{0x20, 0x21, next},   {0x23, 0x5b, next},   {'\\', '\\', at + 4}, {0x5d, 0x7f, next},
                        {0xc0, 0xdf, at + 1}, {0xe0, 0xef, at + 2}, {0xf0, 0xf7, at + 3}};
    for (uint32_t left = 1; left <= 3; ++left)
      states[at + left].edges = {{0x80, 0xbf, left == 1 ? next : at + left - 1}};
    for (const char c : std::string_view("\"/\\bfnrt"))
      states[at + 4].edges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), next});
    states[at + 4].edges.push_back({'u', 'u', at + 8});
    for (uint32_t left = 1; left <= 4; ++left) {
      const uint32_t target = left == 1 ? next : at + 4 + left - 1;
      states[at + 4 + left].edges = {{'0', '9', target}, {'A', 'F', target}, {'a', 'f', target}};
    }
  }
  return TextSet::of([&](GrammarBuilder& builder) { return builder.automaton(states); });
}

// Each character in one form, so that no other form of a forbidden text is left.
TextSet any_text() {
  return TextSet::of([](GrammarBuilder& builder) { return builder.star(json_characters(builder, {{0, 0x10ffff}})); });
}

}  // namespace

// Without lengths these are left to whoever asks.
std::optional<TextSet> SchemaCompiler::text_set(const Json& given, const std::string& where, bool with_lengths) {
  const Json schema = merged_schema(given, root_, where, work_);
  if (schema.is_boolean()) return schema.get<bool>() ? std::nullopt : std::optional(literals({}));
  current_type_ = "string";
  for (const char* name : {"anyOf", "oneOf", "allOf"})
    if (schema.contains(name)) fail("{}: the keyword {} is not supported here", where, quoted(name));
  expect_keywords(schema, where,
                  {"minLength", "maxLength", "pattern", kMorePatterns, "format", "not", "const", "enum"});
  std::optional<TextSet> set;
  const auto narrow = [&](TextSet other) { set = set ? set->both(other) : std::move(other); };
  if (const auto values = listed_values(schema)) narrow(literals(*values));
  for (const std::string& pattern : patterns_of(schema, where))
    narrow(TextSet::of([&](GrammarBuilder& builder) { return pattern_part(builder, pattern); }));
  const int64_t least = count_of(schema, "minLength", 0, where), most = count_of(schema, "maxLength", -1, where);
  if (most >= 0 && most < least) return literals({});
  if (with_lengths && (least > 0 || most >= 0)) {
    if (!set) set = any_text();
    narrow(lengths(least, most));
  }
  const auto other = schema.find("not");
  if (other == schema.end() || other->contains("type")) return set;
  const auto forbidden = other->is_object() && other->size() == 1 ? listed_values(*other) : std::nullopt;
  const bool by_pattern = other->is_object() && other->size() == 1 && other->contains("pattern");
  if (!forbidden && !by_pattern)
    fail("{}: of strings 'not' is supported with const, enum or pattern, as its only keyword", where);
  if (!set) set = any_text();
  return set->without(forbidden ? literals(*forbidden) : TextSet::of([&](GrammarBuilder& builder) {
    return pattern_part(builder, (*other)["pattern"].get<std::string>());
  }));
}

Part SchemaCompiler::string(const Json& schema, const std::string& where) {
  expect_keywords(schema, where, {"minLength", "maxLength", "pattern", kMorePatterns, "format", "not"});
  const std::vector<std::string> patterns = patterns_of(schema, where);
  const int64_t least = count_of(schema, "minLength", 0, where), most = count_of(schema, "maxLength", -1, where);
  const bool counted = least > 0 || most >= 0;
  const bool negated = schema.contains("not") && !(schema["not"].is_object() && schema["not"].contains("type"));
  if (most >= 0 && most < least) return nothing("{}: minLength {} is above maxLength {}", where, least, most);
  if (!negated && patterns.empty()) return counted ? string_of_length(least, most) : any_string();
  if (!negated && patterns.size() == 1 && !counted) return quoted_part(pattern_part(builder_, patterns[0]));
  const std::optional<TextSet> set = text_set(schema, where, false);
  if (!counted && !set->empty()) return quoted_part(set->part(builder_));
  const std::optional<Part> part = set->empty() ? std::nullopt : set->closed().part_of_length(builder_, least, most);
  if (!part) return nothing("{}: no text has this pattern, length and format together", where);
  const uint32_t rule = builder_.add_rule();
  builder_.define(rule, builder_.sequence({builder_.literal("\""), *part}));
  return builder_.call(rule);
}

Part SchemaCompiler::number(const Json& schema, const std::string& where, bool whole) {
  expect_keywords(schema, where, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"});
  const NumberLimits limits = limits_in(schema, where);
  if (!schema.contains("multipleOf")) return whole ? integer_part(builder_, limits) : number_part(builder_, limits);
  const Json& step = schema["multipleOf"];
  const double size = step.is_number() ? step.get<double>() : 0;
  if (size == std::floor(size) && size >= 1 && size <= 1000) {
    const TextSet range = TextSet::of([&](GrammarBuilder& builder) { return integer_part(builder, limits); });
    const TextSet both = range.both(TextSet::multiples_of(static_cast<int64_t>(size)));
    if (both.empty()) return nothing("{}: no multiple of {} lies within the limits", where, size);
    return both.part(builder_);
  }
  for (int digits = 1; digits <= 15; ++digits) {  // 0.5, 2.25, 0.001 ...
    const double scale = std::pow(10.0, digits), digits_of_step = std::round(size * scale);
    if (digits_of_step < 1 || digits_of_step > 1000 || std::abs(size * scale - digits_of_step) > 1e-9) continue;
    const auto step_digits = static_cast<int64_t>(digits_of_step);
    if (whole) {
      Json of_whole = schema;
      of_whole["multipleOf"] = step_digits / std::gcd(step_digits, static_cast<int64_t>(scale));
      return number(of_whole, where, true);
    }
    if (step_digits == 1) return number_part(builder_, limits, digits);
    const TextSet range = TextSet::of([&](GrammarBuilder& builder) { return number_part(builder, limits, digits); });
    const TextSet both = range.both(TextSet::multiples_of(step_digits, digits));
    if (both.empty()) return nothing("{}: no multiple of {} lies within the limits", where, size);
    return both.part(builder_);
  }
  fail("{}: multipleOf is supported for numbers of up to three digits: 7, 250, 0.5, 0.01", where);
}

}  // namespace transom::constraint
