// SPDX-License-Identifier: Apache-2.0
// Objects, arrays and strings whose keywords are counted or intersected, and what is refused.
#include "base/error.h"
#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TEST(ConstraintSchemaObjects, TellNamesByPatternsAndCounts) {
  expect_texts(R"({"type":"object","patternProperties":{"^s_":{"type":"string"},"^n_":{"type":"integer"}},
                   "additionalProperties":false})",
               {"{}", R"({"s_a":"x","n_":1})"}, {R"({"s_a":1})", R"({"x":1})", R"({"n_a":"x"})"});
  expect_texts(R"({"type":"object","properties":{"ab":{"type":"integer"}},"patternProperties":{"^a":{"minimum":3},
                   "^[0-9]+$":{"type":"null"}},"additionalProperties":{"type":"boolean"}})",
               {R"({"ab":3})", R"({"7":null,"x":true})", R"({"ac":9})"},
               {R"({"ab":2})", R"({"ab":3,"ab":"x"})", R"({"7":true})", R"({"x":null})"});
  expect_texts(R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"},"additionalProperties":{"type":"integer"},
                   "maxProperties":2})",
               {"{}", R"({"ab":1,"cd":2})"}, {R"({"abc":1})", R"({"ab":1,"cd":2,"ef":3})"});
  expect_texts(R"({"type":"object","propertyNames":{"enum":["x","y"]},"additionalProperties":true})",
               {R"({"x":1})", R"({"y":[]})"}, {R"({"z":1})"});
  expect_texts(R"({"type":"object","minProperties":1})", {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}"});
  expect_texts(R"({"type":"object","properties":{"a":true,"b":true,"c":true},"minProperties":2,"maxProperties":2})",
               {R"({"a":1,"c":1})", R"({"b":1,"c":1})"}, {R"({"a":1})", R"({"a":1,"b":1,"c":1})", "{}"});
  expect_texts(R"({"type":"object","properties":{"a":true,"b":true},"not":{"required":["b"]}})", {R"({"a":1})"},
               {R"({"b":1})"});
}

// Each name is written by all patterns that it matches.
TEST(ConstraintSchemaObjects, PatternsMayShareNames) {
  expect_texts(R"({"type":"object","patternProperties":{"a":{"type":"integer"},"b":{"minimum":5},"^c":false},
                   "additionalProperties":{"type":"null"}})",
               {R"({"a":1})", R"({"b":5})", R"({"ab":7,"x":null})"},
               {R"({"ab":1})", R"({"a":"x"})", R"({"cx":null})", R"({"ca":5})", R"({"b":4})"});
}

TEST(ConstraintSchemaObjects, WriteListedValuesAsOthers) {
  expect_texts(R"({"enum":[{"a":1,"b":[2,{}]},[]]})", {R"({"a": 1, "b": [2, {}]})", R"({"a":1,"b":[2,{}]})", "[]"},
               {R"({"b":[2,{}],"a":1})", "{}", R"({"a":1,"b":[2, {} ]})"});
  // Names that are only required come as they are listed.
  expect_texts(R"({"type":"object","properties":{"z":{"type":"null"}},"required":["y","b"]})",
               {R"({"z":null,"y":1,"b":2})", R"({"y":1,"b":2})"}, {R"({"b":1,"y":2})"});
}

// Draft 2020-12, Core, 4.3.1: keywords that are not known say nothing.
TEST(ConstraintSchema, OtherKeywordsDescribe) {
  expect_texts(R"({"type":"object","id":"http://a/b","self":{"vendor":"x"},"_format":"date","links":[],
                   "properties":{"a":{"type":"null","readonly":true,"_uniqueItems":true}}})",
               {"{}", R"({"a":null})"}, {R"({"a":1})"});
}

TEST(ConstraintSchema, WritesOthersWhereItIsAsked) {
  const Json schema = parse_json(
      R"({"type":"object","properties":{"a":{"type":"null"},"o":{"type":"object","properties":{"b":true}}}})", "test");
  const Grammar named = json_schema_grammar(schema), whole = json_schema_grammar(schema, true);
  for (const char* text : {R"({"a":null,"x":[1]})", R"({"o":{"b":1,"c":2}})", R"({"x":1})"}) {
    EXPECT_TRUE(writes(whole, text)) << text;
    EXPECT_FALSE(writes(named, text)) << text;
  }
  EXPECT_FALSE(writes(whole, R"({"a":1})"));
  EXPECT_FALSE(writes(whole, R"({"x":1,"a":1})"));
}

// Where nothing is said of other properties, they are written only if the schema asks for some.
TEST(ConstraintSchemaObjects, WriteWhatIsRequiredThoughNothingIsSaidOfIt) {
  expect_texts(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["b"]})",
               {R"({"b":[]})", R"({"a":1,"b":"x"})"}, {"{}", R"({"a":1})", R"({"b":1,"c":1})"});
  expect_texts(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"minProperties":2})",
               {R"({"a":1,"b":null})"}, {R"({"a":1})", R"({"b":1})"});
  expect_texts(R"({"type":"object","properties":{"a":{"type":"integer"}},"minProperties":1})", {R"({"a":1})"},
               {"{}", R"({"b":1})"});
  EXPECT_THROW(grammar_of(R"({"type":"object","properties":{"a":{}},"required":["b"],"additionalProperties":false})"),
               Error);
}

TEST(ConstraintSchemaArrays, CountAndTellItemsApart) {
  expect_texts(R"({"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"minItems":2})", {"[3,1]", "[1,2,3]"},
               {"[1]", "[1,1]", "[1,2,3,1]"});
  std::string letters, all;
  for (char c = 'a'; c <= 'm'; ++c) letters += fmt::format("{}\"{}\"", c == 'a' ? "" : ",", c);
  const std::string many = R"({"type":"array","items":{"enum":[)" + letters + R"(]},"uniqueItems":true,"maxItems":2})";
  expect_texts(many, {"[]", R"(["a","m"])", R"(["c"])"}, {R"(["a","a"])", R"(["a","b","c"])", R"(["n"])"});
  expect_texts(R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"maxItems":3})",
               {"[5]", "[1,9]", "[9,1,1]"}, {"[]", "[1,2]", "[1,1,1,9]"});
  expect_texts(R"({"type":"array","items":[{"type":"integer"},{"type":"null"}],"additionalItems":false,"minItems":1})",
               {"[1]", "[1,null]"}, {"[]", "[null]", "[1,null,1]"});
  const Grammar counted = grammar_of(R"({"type":"array","items":{"type":"null"},"minItems":1999,"maxItems":2000})");
  const auto list = [](int count) {
    std::string text = "[null";
    for (int i = 1; i < count; ++i) text += ",null";
    return text + "]";
  };
  EXPECT_FALSE(writes(counted, list(1998)));
  EXPECT_TRUE(writes(counted, list(1999)));
  EXPECT_TRUE(writes(counted, list(2000)));
  EXPECT_FALSE(writes(counted, list(2001)));
}

TEST(ConstraintSchemaStrings, HavePatternAndLengthTogether) {
  expect_texts(R"({"type":"string","pattern":"^[ab]+$","minLength":2,"maxLength":3})", {"\"ab\"", "\"bbb\""},
               {"\"a\"", "\"abab\"", "\"ac\""});
  expect_texts(R"({"allOf":[{"type":"string","pattern":"^a"},{"pattern":"b$"},{"maxLength":3}]})",
               {"\"ab\"", "\"aéb\""}, {"\"a\"", "\"b\"", "\"axxb\""});
  expect_texts(R"({"type":"string","not":{"enum":["a","\n"]}})", {"\"b\"", "\"\"", "\"aa\""}, {"\"a\"", "\"\\n\""});
  expect_texts(R"({"type":"string","not":{"pattern":"x"}})", {"\"b\""}, {"\"axb\""});
  const Grammar longer = grammar_of(R"({"type":"string","maxLength":3000})");
  EXPECT_TRUE(writes(longer, "\"" + std::string(2998, 'a') + "é😀\""));
  EXPECT_FALSE(writes(longer, "\"" + std::string(3001, 'a') + "\""));
}

// References are parts of addresses.
TEST(ConstraintSchema, ReferencesMayHoldEscapes) {
  expect_texts(R"({"$ref":"#/$defs/a%20b%22","$defs":{"a b\"":{"type":"boolean"}}})", {"true"}, {"1"});
  expect_texts(R"({"$ref":"#/$defs/a~1b~0c","$defs":{"a/b~c":{"type":"boolean"}}})", {"true"}, {"1"});
  expect_texts(R"({"$ref":"#/$defs/50%","$defs":{"50%":{"type":"boolean"}}})", {"true"}, {"1"});
}

TEST(ConstraintSchema, RefusesByNameWhatNoGrammarKeeps) {
  const auto message = [](const std::string& schema) -> std::string {
    try {
      grammar_of(schema);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
       "'uniqueItems' is supported for booleans and items of an enum of at most 1000 values, not for free strings"},
      {R"({"type":"object","minProperties":3})", "minProperties"},
      {R"({"type":"number","multipleOf":0.1234})", "multipleOf"},
      {R"({"type":"integer","minimum":9223372036854775807})", "minimum: numbers of more than 18 digits"},
      {R"({"type":"number","exclusiveMaximum":-1e20})", "exclusiveMaximum: numbers of more than 18 digits"},
      {R"j({"type":"string","pattern":"(?i:a)"})j", "a group that begins with (? and this"},
      {R"({"type":"string","pattern":"(?!a)b"})", "look-around"},
      {R"({"type":"object","if":{"propertyNames":{"pattern":"a"}},"then":{}})", ".if: no opposite is known"},
      {R"({"type":"string","minlength":3})", "'minLength' is one"},
      {R"({"type":"object","$dynamicRef":"#a"})", "$dynamicRef"},
      {R"({"oneOf":[{"type":"number","multipleOf":3},{"type":"number","multipleOf":5}]})",
       "of oneOf nothing is left of [0]"},
      {R"({"oneOf":[{"propertyNames":{"pattern":"a"}},{"propertyNames":{"pattern":"b"}}]})", "oneOf is supported"},
      {R"({"type":"array","contains":{},"maxContains":3})", "maxContains"},
      {R"({"type":"array","minItems":5000000000})", "minItems: expected at most 1000000000"},
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}})", "lead to each other"},
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "allow nothing together"},
      {R"({"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]})", "no text"},
  };
  for (const auto& [schema, part] : cases)
    EXPECT_NE(message(schema).find(part), std::string::npos) << schema << "\n" << message(schema);
}

}  // namespace
}  // namespace transom::constraint
