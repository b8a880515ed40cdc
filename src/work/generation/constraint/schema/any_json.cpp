// SPDX-License-Identifier: Apache-2.0
// Any JSON, as rules that call each other, and the pieces that all schemas are made of.
#include "work/generation/constraint/schema/compiler.h"
#include "work/generation/constraint/schema/json_schema.h"

namespace transom::constraint {
namespace {

GrammarBuilder::Part escaped_character(GrammarBuilder& builder) {
  const auto hexadecimal = [&] {
    return builder.either({builder.bytes('0', '9'), builder.bytes('a', 'f'), builder.bytes('A', 'F')});
  };
  // Escapes of surrogates come in pairs only; they are left out, since each character has a plain form.
  std::vector<GrammarBuilder::Part> short_escapes;
  for (const char c : std::string_view("\"\\/bfnrt"))
    short_escapes.push_back(builder.bytes(static_cast<uint8_t>(c), static_cast<uint8_t>(c)));
  const GrammarBuilder::Part unicode = builder.sequence({builder.literal("u00"), hexadecimal(), hexadecimal()});
  short_escapes.push_back(unicode);
  return builder.sequence({builder.literal("\\"), builder.either(short_escapes)});
}

// Any text with the quote behind it: strings with limits and without differ in nothing else.
const TextSet& string_characters() {
  static const TextSet set =
      TextSet::of([](GrammarBuilder& builder) { return builder.star(json_character(builder)); }).closed();
  return set;
}

}  // namespace

GrammarBuilder::Part json_character(GrammarBuilder& builder) {
  return builder.either(
      {builder.code_points({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}}), escaped_character(builder)});
}

using Part = GrammarBuilder::Part;

Part SchemaCompiler::space() { return builder_.optional(builder_.literal(" ")); }
Part SchemaCompiler::comma() { return builder_.sequence({builder_.literal(","), space()}); }
Part SchemaCompiler::colon() { return builder_.sequence({builder_.literal(":"), space()}); }
// A rule of its own: places in texts that go on alike share their tokens, whatever comes behind.
Part SchemaCompiler::quoted_part(Part inside) {
  const uint32_t rule = builder_.add_rule();
  builder_.define(rule, builder_.sequence({builder_.literal("\""), inside, builder_.literal("\"")}));
  return builder_.call(rule);
}

// One value, with spaces where they may stand in any other.
Part SchemaCompiler::literal_value(const Json& value) {
  if (!value.is_structured() || value.empty()) return builder_.literal(schema_text(value));
  std::vector<Part> parts{builder_.literal(value.is_object() ? "{" : "[")};
  for (const auto& [name, content] : value.items()) {
    if (parts.size() > 1) parts.push_back(comma());
    if (value.is_object()) parts.push_back(builder_.literal(schema_text(name))), parts.push_back(colon());
    parts.push_back(literal_value(content));
  }
  parts.push_back(builder_.literal(value.is_object() ? "}" : "]"));
  return builder_.sequence(parts);
}

uint32_t SchemaCompiler::rule(const char* name, Part (SchemaCompiler::*make)()) {
  const auto found = named_.find(name);
  if (found != named_.end()) return found->second;
  const uint32_t added = named_[name] = builder_.add_rule();
  builder_.define(added, (this->*make)());
  return added;
}

Part SchemaCompiler::any_string() { return builder_.call(rule("string", &SchemaCompiler::make_string)); }
Part SchemaCompiler::any_value() { return builder_.call(rule("value", &SchemaCompiler::make_value)); }
Part SchemaCompiler::any_object() { return builder_.call(rule("object", &SchemaCompiler::make_object)); }
Part SchemaCompiler::any_array() { return builder_.call(rule("array", &SchemaCompiler::make_array)); }
Part SchemaCompiler::make_string() {
  return builder_.sequence({builder_.literal("\""), string_characters().part(builder_)});
}

Part SchemaCompiler::make_value() {
  return builder_.either({any_object(), any_array(), any_string(), number_part(builder_, {}), builder_.literal("true"),
                          builder_.literal("false"), builder_.literal("null")});
}

Part SchemaCompiler::make_object() {
  // No key twice is more than a grammar can keep; readers of JSON take the last one.
  const auto member = [&] { return builder_.sequence({any_string(), colon(), any_value()}); };
  const Part members = builder_.sequence({member(), builder_.star(builder_.sequence({comma(), member()}))});
  return builder_.sequence({builder_.literal("{"), builder_.optional(members), builder_.literal("}")});
}

Part SchemaCompiler::make_array() {
  const Part items = builder_.sequence({any_value(), builder_.star(builder_.sequence({comma(), any_value()}))});
  return builder_.sequence({builder_.literal("["), builder_.optional(items), builder_.literal("]")});
}

// One rule for all strings with these limits.
Part SchemaCompiler::string_of_length(int64_t least, int64_t most) {
  const auto [known, is_new] = named_.try_emplace(fmt::format("string {} {}", least, most), 0);
  if (!is_new) return builder_.call(known->second);
  const uint32_t added = known->second = builder_.add_rule();
  const std::optional<Part> inside = string_characters().part_of_length(builder_, least, most);
  builder_.define(added, builder_.sequence({builder_.literal("\""), inside ? *inside : builder_.either({})}));
  return builder_.call(added);
}

}  // namespace transom::constraint
