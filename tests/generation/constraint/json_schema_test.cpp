// SPDX-License-Identifier: Apache-2.0
// Schemas whose keywords are merged, counted or intersected: texts that are valid are written, others are not.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/json.h"
#include "generation/constraint/automaton.h"
#include "generation/constraint/json_schema.h"
#include "generation/constraint/place_classes.h"
#include "generation/constraint/token_masks.h"

namespace transom::constraint {
namespace {

Grammar grammar_of(const std::string& text) { return json_schema_grammar(parse_json(text, "test")); }

bool writes(const Grammar& grammar, const std::string& text) {
  Stacks stacks;
  Places places = start_of(grammar, stacks);
  for (const char byte : text) places = behind(grammar, stacks, places, static_cast<uint8_t>(byte));
  return places.ended;
}

void expect_texts(const std::string& schema, const std::vector<std::string>& good,
                  const std::vector<std::string>& bad) {
  const Grammar grammar = grammar_of(schema);
  for (const std::string& text : good) EXPECT_TRUE(writes(grammar, text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(writes(grammar, text)) << schema << "\n" << text;
}

TEST(ConstraintSchemaMerge, HoldsAllOfTogether) {
  expect_texts(R"({"allOf":[{"type":"integer"},{"minimum":1},{"maximum":30}]})", {"1", "30"}, {"0", "31", "1.5"});
  expect_texts(R"({"allOf":[{"$ref":"#/$defs/a"},{"type":"object","properties":{"b":{"type":"null"}},"required":["b"]}],
                   "$defs":{"a":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}})",
               {R"({"a":1,"b":null})"}, {R"({"a":1})", R"({"b":null})", R"({"a":"x","b":null})"});
  expect_texts(R"({"$ref":"#/$defs/a","properties":{"a":{"maximum":3}},"unevaluatedProperties":false,
                   "$defs":{"a":{"type":"object","properties":{"a":{"type":"integer","minimum":2}}}}})",
               {R"({"a":2})", R"({"a":3})", "{}"}, {R"({"a":1})", R"({"a":4})", R"({"b":1})"});
  // A property that another schema of the list forbids is not written.
  expect_texts(R"({"allOf":[{"type":"object","properties":{"a":true},"additionalProperties":false},
                            {"properties":{"b":true}}]})",
               {"{}", R"({"a":1})"}, {R"({"b":1})"});
  expect_texts(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},
                   "anyOf":[{"required":["a"]},{"required":["b"]}]})",
               {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"}, {"{}"});
  expect_texts(R"({"anyOf":[{"minimum":5},{"maximum":1}],"type":"integer","allOf":[{"anyOf":[{"enum":[0,1,9]},
                   {"type":"integer","minimum":20}]}]})",
               {"0", "1", "9", "20"}, {"2", "5", "19"});
  expect_texts(R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}}},{"properties":{"k":{"const":"b"}}}],
                   "type":"object","required":["k"]})",
               {R"({"k":"a","x":null})", R"({"k":"b"})"}, {"{}", R"({"k":"c"})"});
  // Schemas that lead back to themselves end.
  expect_texts(R"({"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
                   "a":{"type":"object","properties":{"n":{"$ref":"#/$defs/a"}}},
                   "b":{"type":"object","properties":{"n":{"$ref":"#/$defs/b"},"v":{"type":"null"}}}}})",
               {R"({"n":{"n":{},"v":null}})", R"({"v":null})"}, {R"({"n":1})"});
  expect_texts(R"({"anyOf":[{"allOf":[{"type":"string"},{"type":"integer"}]},{"type":"null"}]})", {"null"}, {"1"});
}

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

TEST(ConstraintSchemaConditions, AreAlternatives) {
  expect_texts(
      R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]}})",
      {"{}", R"({"b":null})", R"({"a":null,"b":null})"}, {R"({"a":null})"});
  expect_texts(R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":true},"required":["k","v"],
                   "if":{"properties":{"k":{"const":"x"}}},"then":{"properties":{"v":{"type":"integer"}}},
                   "else":{"properties":{"v":{"type":"null"}}}})",
               {R"({"k":"x","v":3})", R"({"k":"y","v":null})"}, {R"({"k":"x","v":null})", R"({"k":"y","v":3})"});
  // A property that is missing meets a condition that does not require it.
  expect_texts(R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":{"type":"null"}},
                   "if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]}})",
               {R"({"v":null})", R"({"k":"y"})", R"({"k":"x","v":null})"}, {"{}", R"({"k":"x"})"});
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

TEST(ConstraintSchemaNumbers, KeepLimitsAndSteps) {
  expect_texts(R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":100})", {"0", "-14", "98"},
               {"1", "-21", "105", "-0"});
  expect_texts(R"({"type":"integer","multipleOf":5})", {"0", "-15", "1000"}, {"3", "01"});
  expect_texts(R"({"type":"number","multipleOf":0.01,"minimum":0})", {"0", "1.25", "3.1"}, {"0.125", "1e3"});
  expect_texts(R"({"type":"number","minimum":0.25,"maximum":0.75})", {"0.25", "0.3", "0.75", "0.2500", "0.7499"},
               {"0", "1", "0.2", "0.76", "0.7501", "0.24999", "-0.5"});
  expect_texts(R"({"type":"number","exclusiveMinimum":-1.5,"exclusiveMaximum":2})", {"-1.4", "0", "1.9", "-1", "-0.1"},
               {"-1.5", "2", "-2", "2.0", "-1.51"});
  expect_texts(R"({"type":"number","exclusiveMaximum":0})", {"-0.1", "-5"}, {"0", "-0", "-0.0", "1"});
  expect_texts(R"({"type":"number","exclusiveMinimum":0,"maximum":1e-5})", {"0.00001", "0.000009"},
               {"0", "0.0", "0.00002"});
  expect_texts(R"({"type":"integer","minimum":0,"maximum":18446744073709551615})", {"0", "999999999999999999"}, {"-1"});
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
      {R"({"type":"array","items":{"type":"string"},"uniqueItems":true})", "uniqueItems"},
      {R"({"type":"object","patternProperties":{"a":{},"b":{}}})", "match a name both"},
      {R"({"type":"object","minProperties":3})", "minProperties"},
      {R"({"type":"number","multipleOf":0.3})", "multipleOf"},
      {R"({"type":"object","if":{"minProperties":2},"then":{}})", ".if: supported"},
      {R"({"type":"string","not":{"minLength":3}})", "'not'"},
      {R"({"type":"array","contains":{},"maxContains":3})", "maxContains"},
      {R"({"type":"array","maxItems":50000})", "20000 items"},
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}})", "lead to each other"},
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "allow nothing together"},
      {R"({"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]})", "no text"},
  };
  for (const auto& [schema, part] : cases)
    EXPECT_NE(message(schema).find(part), std::string::npos) << schema << "\n" << message(schema);
}

// The masks of counted texts are found once for all counts that no token tells apart.
TEST(ConstraintMasks, AreSharedByAlikePlaces) {
  const Grammar grammar = grammar_of(R"({"type":"array","items":{"type":"string","maxLength":900},"maxItems":900})");
  const std::vector<uint32_t> alike = alike_places(grammar, 6);
  std::vector<uint32_t> different(alike);
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  EXPECT_GT(grammar.nodes.size(), 3000u);
  EXPECT_LT(different.size(), 200u);

  const std::vector<std::string> tokens{"[", "]", "\"", ",", " ", "a", "aa", "aaaa", "\",\"", "\"]", "a\"", "é", "\\n"};
  const auto trie = std::make_shared<TokenTrie>(tokens);
  const CompiledGrammar compiled(grammar_of(R"({"type":"array","items":{"type":"string","maxLength":200},"maxItems":200,
                                                "minItems":100})"),
                                 trie);
  std::mt19937 random(5);
  for (int walk = 0; walk < 6; ++walk) {
    Stacks stacks;
    Places places = start_of(compiled.grammar(), stacks);
    for (int step = 0; step < 600 && !places.items.empty(); ++step) {
      const auto mask = compiled.allowed(places, stacks);
      std::vector<size_t> possible;
      for (size_t token = 0; token < tokens.size(); ++token) {
        Places next = places;
        for (const char byte : tokens[token])
          next = behind(compiled.grammar(), stacks, next, static_cast<uint8_t>(byte));
        ASSERT_EQ(((*mask)[token / 32] >> (token % 32) & 1) != 0, !next.dead()) << step << " token " << tokens[token];
        if (!next.dead()) possible.push_back(token);
      }
      if (possible.empty()) break;
      // Long strings in every other walk, long lists in the others.
      const size_t wanted = walk % 2 == 0 ? 7 : 8;
      const bool takes = (mask->at(0) >> wanted & 1) && random() % 4 != 0;
      const size_t token = takes ? wanted : possible[random() % possible.size()];
      for (const char byte : tokens[token])
        places = behind(compiled.grammar(), stacks, places, static_cast<uint8_t>(byte));
    }
  }
}

}  // namespace
}  // namespace transom::constraint
