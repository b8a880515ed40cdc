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

}  // namespace

GrammarBuilder::Part json_character(GrammarBuilder& builder) {
  return builder.either(
      {builder.code_points({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}}), escaped_character(builder)});
}

using Part = GrammarBuilder::Part;

Part SchemaCompiler::space() { return builder_.optional(builder_.literal(" ")); }
Part SchemaCompiler::comma() { return builder_.sequence({builder_.literal(","), space()}); }
Part SchemaCompiler::colon() { return builder_.sequence({builder_.literal(":"), space()}); }
Part SchemaCompiler::quoted_part(Part inside) {
  return builder_.sequence({builder_.literal("\""), inside, builder_.literal("\"")});
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
Part SchemaCompiler::make_string() { return quoted_part(builder_.star(json_character(builder_))); }

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

Part SchemaCompiler::make_long_character() {
  return builder_.either({builder_.code_points({{0x80, 0x10ffff}}), escaped_character(builder_)});
}

Part SchemaCompiler::counted_characters(int64_t least, int64_t most) {
  const uint32_t longer = rule("long character", &SchemaCompiler::make_long_character);
  return builder_.repeat(
      [&] {
        return builder_.bytes_or_call({{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}}, longer);
      },
      least, most, true);
}

}  // namespace transom::constraint
