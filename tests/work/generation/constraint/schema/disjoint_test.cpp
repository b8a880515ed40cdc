// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/schema/disjoint.h"

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/schema/schema_texts.h"
#include "work/generation/constraint/schema/validity.h"

namespace transom::constraint {
namespace {

// Whether each schema of the list excludes all others.
bool disjoint(const std::string& list, const std::string& root = "true", const char* type = nullptr) {
  int64_t work = 2'000'000;
  const Json around = type ? Json(type) : Json(), all = parse_json(list, "test"), top = parse_json(root, "test");
  for (const Json& a : all)
    for (const Json& b : all)
      if (&a != &b && !excludes(a, type ? &around : nullptr, b, {top, work, false})) return false;
  return true;
}

std::string object(const std::string& properties, const std::string& required, const std::string& more = "") {
  return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]" + more + "}";
}

TEST(SchemaDisjoint, TypesConstantsAndLimitsTellSchemasApart) {
  for (
      const char* list :
      {R"([{"type":"string"},{"type":"integer"},{"type":"null"}])", R"([{"type":["string","null"]},{"type":"array"}])",
       R"([{"const":1},{"const":"1"},{"enum":[2,[1],{"a":1}]}])", R"([{"const":1},{"const":true}])",
       R"([{"enum":["a","b"]},{"type":"string","minLength":2}])", R"([{"const":5},{"type":"integer","minimum":6}])",
       R"([{"type":"integer","maximum":0},{"type":"integer","minimum":1}])",
       R"([{"type":"number","exclusiveMaximum":5},{"type":"number","minimum":5}])",
       R"([{"type":"string","maxLength":3},{"type":"string","minLength":4}])",
       R"([{"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"}])",
       R"([{"type":"string","pattern":"^[0-9]+$"},{"type":"string","pattern":"^[a-z]+$"},{"const":"A"}])",
       R"([{"type":"array","maxItems":1},{"type":"array","minItems":2}])",
       R"([{"type":"array","minItems":1,"items":{"type":"string"}},{"type":"array","items":{"type":"null"},"minItems":1}])",
       R"([{"type":"array","prefixItems":[{"const":"a"},true],"minItems":2},{"type":"array","prefixItems":[{"const":"b"}],"minItems":1}])",
       R"([{"type":"string"},{"anyOf":[{"type":"null"},{"type":"array"}]}])",
       R"([{"allOf":[{"type":"string"}]},{"oneOf":[{"type":"null"}]}])"})
    EXPECT_TRUE(disjoint(list)) << list;
  for (const char* list :
       {R"([{"type":"integer"},{"type":"number"}])", R"([{"const":1},{"const":1.0}])", R"([true,{"type":"null"}])",
        R"([{},{"type":"null"}])", R"([{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}])",
        R"([{"enum":["a","b"]},{"enum":["b","c"]}])", R"([{"enum":["a","bc"]},{"type":"string","minLength":2}])",
        R"([{"type":"integer","maximum":5},{"type":"integer","minimum":5}])",
        R"([{"type":"string","maxLength":3},{"type":"string","minLength":3}])",
        R"([{"type":"string","pattern":"^a"},{"type":"string","pattern":"b$"}])",
        R"([{"type":"string","format":"date"},{"type":"string","format":"uuid"}])",
        R"([{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":"null"}}])",
        R"([{"type":"string"},{"anyOf":[{"type":"null"},{"type":"string"}]}])",
        R"([{"type":"string"},{"not":{"type":"string"}}])"})
    EXPECT_FALSE(disjoint(list)) << list;
  // Schemas without a type have that of what is around them.
  EXPECT_TRUE(disjoint(R"([{"minLength":3},{"maxLength":2}])", "true", "string"));
  EXPECT_FALSE(disjoint(R"([{"minLength":3},{"maxLength":2}])", "true", "integer"));
}

TEST(SchemaDisjoint, PropertiesTellObjectsApart) {
  const auto pair = [](const std::string& a, const std::string& b) { return "[" + a + "," + b + "]"; };
  const std::string cat = object(R"("kind":{"const":"cat"},"lives":{"type":"integer"})", R"("kind")");
  const std::string dog = object(R"("kind":{"enum":["dog","wolf"]},"name":{"type":"string"})", R"("kind","name")");
  EXPECT_TRUE(disjoint(pair(cat, dog)));
  EXPECT_TRUE(disjoint(pair(cat, object(R"("kind":{"type":"string","pattern":"^d"})", R"("kind")"))));
  // Required by one is enough; by none it may be left out.
  EXPECT_TRUE(disjoint(pair(cat, object(R"("kind":{"const":"dog"})", ""))));
  EXPECT_FALSE(disjoint(pair(object(R"("kind":{"const":"cat"})", ""), object(R"("kind":{"const":"dog"})", ""))));
  EXPECT_FALSE(disjoint(pair(cat, cat)));
  EXPECT_FALSE(disjoint(pair(cat, object(R"("kind":{"enum":["cat","dog"]})", R"("kind")"))));
  // What each requires and the other never writes.
  EXPECT_TRUE(disjoint(pair(object(R"("a":{})", R"("a")"), object(R"("b":{})", R"("b")"))));
  EXPECT_FALSE(disjoint(pair(object(R"("a":{})", R"("a")"), object(R"("b":{})", ""))));
  EXPECT_FALSE(disjoint(pair(object(R"("a":{})", R"("a")", R"(,"additionalProperties":true)"),
                             object(R"("b":{})", R"("b")", R"(,"additionalProperties":true)"))));
  EXPECT_TRUE(disjoint(pair(object(R"("a":{})", R"("a")", R"(,"additionalProperties":false)"),
                            object(R"("b":{})", R"("b")", R"(,"additionalProperties":true)"))));
  EXPECT_TRUE(disjoint(pair(object(R"("a":{"type":"string"})", R"("a")"),
                            object("", R"("a")", R"(,"additionalProperties":{"type":"null"})"))));
  // Tags below, behind references and in alternatives.
  EXPECT_TRUE(disjoint(pair(object(R"("head":)" + cat, R"("head")"), object(R"("head":)" + dog, R"("head")"))));
  EXPECT_TRUE(disjoint(R"([{"$ref":"#/$defs/cat"},{"anyOf":[{"$ref":"#/$defs/dog"},{"type":"null"}]}])",
                       R"({"$defs":{"cat":)" + cat + R"(,"dog":)" + dog + "}}"));
  EXPECT_FALSE(disjoint(R"([{"$ref":"#"},{"$ref":"#"}])", R"({"anyOf":[{"$ref":"#"}]})"));
}

// What is written beside the named properties of a schema counts, or two schemas of oneOf would both hold in silence.
TEST(SchemaDisjoint, PropertiesThatOthersNameAreWritten) {
  const std::string wants = object("", R"("y")"), own = R"("x":{})";
  const auto excluded = [&](const std::string& written, const std::string& root = "true") {
    int64_t work = 1000;
    const Json top = parse_json(root, "test");
    return excludes(parse_json(written, "test"), nullptr, parse_json(wants, "test"), {top, work, false});
  };
  EXPECT_TRUE(excluded(object(own, R"("x")")));
  EXPECT_FALSE(excluded(object(own, R"("y")")));
  EXPECT_FALSE(excluded(object(own, "", R"(,"patternProperties":{"^y":{}})")));
  EXPECT_FALSE(excluded(object(own, "", R"(,"minProperties":2)")));
  EXPECT_FALSE(excluded(R"({"properties":{"y":{}},"anyOf":[)" + object(own, "") + "]}"));
  EXPECT_FALSE(excluded(R"({"properties":{"y":{}},"$ref":"#/a"})", R"({"a":)" + object(own, "") + "}"));
  expect_texts(R"({"type":"object","properties":{"x":{},"y":{}},"oneOf":[{"properties":{"x":{"type":"null"}},
                   "required":["x"]},{"required":["y"]}]})",
               {R"({"x":null})", R"({"y":1})", R"({"x":2,"y":1})"}, {R"({"x":null,"y":1})", "{}"});
  const Json schema = parse_json(R"({"oneOf":[)" + object(own, R"("x")") + "," + wants + "]}", "test");
  const Grammar whole = json_schema_grammar(schema, true);
  EXPECT_TRUE(writes(whole, R"({"x":1,"z":2})"));
  EXPECT_TRUE(writes(whole, R"({"y":1})"));
  EXPECT_FALSE(writes(whole, R"({"x":1,"y":2})"));
}

// What takes too long is not known to be disjoint; nothing runs out of its stack.
TEST(SchemaDisjoint, EndsOnHostileSchemas) {
  EXPECT_FALSE(disjoint(R"([{"const":[[1]]},{"$ref":"#"}])", R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})"));
  std::string list = "[";
  for (int i = 0; i < 300; ++i)
    list += (i ? "," : "") + (R"({"type":"string","pattern":"^(a{1,99}){1,9}b)" + std::to_string(i)) + "\"}";
  EXPECT_FALSE(disjoint(list + "]"));
  std::string many = R"({"oneOf":[{"enum":[0)";
  for (int i = 1; i < 3000; ++i) many += "," + std::to_string(i);
  expect_texts(many + R"(]},{"enum":[0]}]})", {"2999"}, {"0", "3000"});
}

TEST(SchemaDisjoint, ValuesThatBreakAKeywordAreNotWritten) {
  const auto is_invalid = [](const char* value, const char* schema) {
    int64_t work = 1'000'000;
    return is_certainly_invalid(parse_json(value, "test"), parse_json(schema, "test"), true, work);
  };
  EXPECT_TRUE(is_invalid("1.5", R"({"type":"integer"})"));
  EXPECT_FALSE(is_invalid("2.0", R"({"type":"integer"})"));
  EXPECT_TRUE(is_invalid("\"é\"", R"({"minLength":2})"));
  EXPECT_TRUE(is_invalid("\"ab\"", R"({"pattern":"^b"})"));
  EXPECT_FALSE(is_invalid("\"ab\"", R"({"pattern":"("})"));
  EXPECT_TRUE(is_invalid(R"({"a":1,"b":2})", R"({"properties":{"a":true},"additionalProperties":false})"));
  EXPECT_TRUE(is_invalid(R"([1,"a"])", R"({"items":{"type":"integer"}})"));
  EXPECT_FALSE(is_invalid(R"(["a",1])", R"({"prefixItems":[{"type":"string"}],"items":{"type":"integer"}})"));
  EXPECT_THROW(json_schema_grammar(parse_json(R"({"type":"string","const":1})", "test")), Error);
  EXPECT_THROW(json_schema_grammar(parse_json(R"({"type":"string","enum":[1,2]})", "test")), Error);
  EXPECT_NO_THROW(json_schema_grammar(parse_json(R"({"type":"string","enum":[1,"a"]})", "test")));
}

TEST(Patterns, ShareATextOrNot) {
  EXPECT_TRUE(matches_pattern("b+", "abbc"));
  EXPECT_FALSE(matches_pattern("^b+$", "abbc"));
  EXPECT_TRUE(share_a_text("^a.*$", "z$"));
  EXPECT_FALSE(share_a_text("^a.*$", "^b"));
  EXPECT_FALSE(share_a_text("^(ab)+$", "^a(ba)*$"));
  EXPECT_TRUE(share_a_text("^(aa)*$", "^(aaa)+$"));
  EXPECT_FALSE(share_a_text("^[à-é]$", "^[ê-ÿ]$"));
}

}  // namespace
}  // namespace transom::constraint
