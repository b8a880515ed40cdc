// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/constraint/grammar/gbnf.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/schema_texts.h"
#include "work/generation/constraint/tokens/automaton.h"
#include "work/generation/constraint/tokens/token_masks.h"

namespace transom::constraint {
namespace {

Grammar regex(const std::string& pattern, RegexOptions options = {}) {
  GrammarBuilder builder;
  const uint32_t root = builder.add_rule();
  builder.define(root, regex_part(builder, pattern, options));
  return builder.finish("test");
}

void expect(const Grammar& grammar, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  for (const std::string& text : good) EXPECT_TRUE(writes(grammar, text)) << text;
  for (const std::string& text : bad) EXPECT_FALSE(writes(grammar, text)) << text;
}

TEST(ConstraintRegex, MatchesAsPythonDoes) {
  expect(regex("a(b|cd)*e?"), {"a", "ab", "acdbe"}, {"", "b", "ac", "aee"});
  expect(regex("^[^a-c\\d]{2,3}$"), {"xy", "xyz", "é߿"}, {"x", "wxyz", "xa", "x1"});
  expect(regex("\\d{3}-\\w+\\.\\s"), {"123-a_9. "}, {"12-a. ", "123-. "});
  expect(regex("(?:x|y){2}?z|[]]"), {"xyz", "]"}, {"xz"});
  expect(regex("\\u00e9."), {"éa", "é😀"}, {"é\n", "e"});
  expect(regex("a{0}b"), {"b"}, {"ab"});
  expect(regex("b", {.anchored = false}), {"b", "abc"}, {"", "ac"});
  expect(regex("^b|c$", {.anchored = false}), {"bx", "xc", "b"}, {"xb", "cx"});
  expect(regex("a\"b", {.in_json = true}), {"a\\\"b"}, {"a\"b"});
  expect(regex("a{b}|{|{}{,}|a{1,2"), {"a{b}", "{", "{", "{}", "{}}", "a{1,2"}, {"ab", "aa", "{}{,}"});
  for (const char* pattern : {"(", ")", "a{2,1}", "a**", "a+{2}", "*", "[a", "[b-a]", "(?=a)", "(?<!a)b", "\\1", "\\b",
                              "a^b", "a$b", "\\", "a{1000001}", "\\p{L}"})
    EXPECT_THROW(regex(pattern), Error) << pattern;
  EXPECT_THROW(regex(std::string(kMostPatternBytes + 1, 'a')), Error);
  expect(regex("((a{100}){100}){2}b?"), {std::string(20'000, 'a'), std::string(20'000, 'a') + "b"},
         {std::string(19'999, 'a'), std::string(20'001, 'a')});
}

// A text is valid by every dialect that may check it.
TEST(ConstraintRegex, ClassesAreThoseOfAllDialects) {
  expect(regex("\\W"), {"-", " ", "…", "€"}, {"é", "_", "日", "²", "ª", "\u203f"});
  expect(regex("[^\\w]"), {"-"}, {"é", "a", "½"});
  expect(regex("[^\\W]"), {"a", "_"}, {"é", "-"});
  expect(regex("\\S"), {"é", "\x1b"}, {"\x1c", "\u2003", "\u0085", "\ufeff", " "});
  expect(regex("[^\\s-]"), {"é"}, {"\x1f", "\u2003", "-"});
  expect(regex("[^\\S]"), {" ", "\u3000"}, {"\x1c", "a"});
  expect(regex("\\D"), {"é", "½"}, {"1", "٣", "𝟘"});
  expect(regex("[^\\d]"), {"é"}, {"٣"});
  expect(regex("[^\\D]|\\d"), {"7"}, {"٣", "a"});
  expect(regex("[\\w\\W]|[\\s\\S]{2}"), {"é", "日", "_", "\u2003\n"}, {"", "abc"});
  expect(regex("."), {"é", "\u0085"}, {"\n", "\r", "\u2028"});
}

TEST(ConstraintGbnf, ReadsLlamasNotation) {
  const Grammar grammar = parse_gbnf(
      "# a list\nroot ::= \"[\" item (\", \" item)* \"]\"\nitem ::= [a-z]+ | \"\\\"\" [^\"]{1,2} \"\\\"\"\n  | "
      "number\nnumber ::= \"-\"? [0-9]{2}\n");
  expect(grammar, {"[a]", "[ab, -12, \"é!\"]"}, {"[]", "[a,b]", "[1]", "[\"\"]"});
  for (const char* text :
       {"", "root ::= a", "root ::= root \"a\"", "root ::= \"a", "root = \"a\"", "root ::= (", "a ::= \"b\"",
        "root ::= a\na ::= b\nb ::= \"\" a", "root ::= [z-a]", "root ::= \"a\"\nroot ::= \"b\""})
    EXPECT_THROW(parse_gbnf(text), Error) << text;
}

TEST(ConstraintSchema, AllowsWhatIsValidAlone) {
  expect(
      grammar_of(
          R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false})"),
      {R"({"a":1})", R"({"a": -20, "b": "x\n\"é"})"},
      {"{}", R"({"b":"x"})", R"({"a":1,})", R"({"a":01})", R"({"b":"x","a":1})", R"({"a":1,"c":2})",
       "{\"a\":1,\"b\":\"\n\"}"});
  expect(grammar_of(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}}})"),
         {"{}", R"({"a":null})", R"({"b":null})", R"({"a":null,"c":null})", R"({"a":null, "b":null, "c":null})"},
         {R"({,"b":null})", R"({"a":null "b":null})"});
  expect(
      grammar_of(
          R"({"type":"object","properties":{"ab":{"type":"integer"}},"required":["ab"],"additionalProperties":{"type":"string"}})"),
      {R"({"ab":1})", R"({"ab":1,"a":"x","abc":"y","b":"z"})"}, {R"({"ab":1,"ab":"x"})", R"({"ab":1,"c":2})"});
  expect(grammar_of(R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})"),
         {"[true]", "[true,false, true]"}, {"[]", "[true,true,true,true]", "[1]"});
  expect(grammar_of(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})"),
         {"[]", "[1]", "[1,\"a\"]"}, {"[1,\"a\",2]", "[\"a\"]"});
  expect(grammar_of(R"({"type":"array","minItems":2})"), {"[1,[]]", "[1,2,{\"a\":null}]"}, {"[1]"});
  expect(grammar_of(R"({"enum":["a",1,null,{"b":[2]}]})"), {"\"a\"", "1", "null", "{\"b\":[2]}"}, {"\"b\"", "2"});
  expect(grammar_of(R"({"type":"string","minLength":1,"maxLength":2})"), {"\"a\"", "\"😀é\"", "\"\\n\""},
         {"\"\"", "\"abc\""});
  expect(grammar_of(R"({"type":"string","x-widget":"line"})"), {"\"\""}, {"1"});
  expect(grammar_of(R"({"type":"string","pattern":"^a+$"})"), {"\"aa\""}, {"\"\"", "\"ab\""});
  expect(grammar_of(R"({"type":"string","format":"date"})"), {"\"2024-02-28\""}, {"\"2024-13-01\"", "\"x\""});
  expect(grammar_of(R"({"type":["integer","null"],"minimum":-5,"maximum":120})"), {"-5", "0", "99", "120", "null"},
         {"-6", "121", "1000", "-0"});
  expect(grammar_of(R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":1001})"), {"10", "999", "1000"},
         {"9", "1001", "-10"});
  expect(grammar_of(R"({"type":"number","minimum":0,"maximum":1})"), {"0", "1", "0.25", "0.999"},
         {"1.5", "-0.5", "2", "1e5"});
  expect(grammar_of(R"({"type":"number"})"), {"-1.5e10", "0.1", "3"}, {".5", "1.", "+1"});
  expect(grammar_of(R"({"anyOf":[{"type":"integer"},{"type":"string"}]})"), {"1", "\"a\""}, {"null"});
  expect(
      grammar_of(
          R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}})"),
      {R"({"next":null})", R"({"next":{"next":{"next":null}}})"}, {"{}", "null"});
  expect(grammar_of("true"), {"{\"a\":[1,\"x\",{}]}", "null"}, {"", "[1,]"});
  expect(json_object_grammar(), {"{}", "{\"a\": {\"b\": []}}"}, {"[]", "1"});
}

TEST(ConstraintSchema, RefusesWhatItCannotKeep) {
  for (const char* text :
       {R"({"type":"array","uniqueItems":true})", R"({"not":{}})", R"({"type":"number","multipleOf":0.1234})",
        R"({"allOf":[{"type":"integer"},{"type":"null"}]})", R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
        R"({"type":"text"})", R"({"type":7})", R"({"$ref":"#"})", R"({"$ref":"#/none"})", R"({"$ref":"http://x"})",
        R"({"type":"array","minItems":3,"maxItems":1})", R"({"type":"string","pattern":"("})", R"({"enum":[]})",
        "false", "7", R"({"type":"integer","minimum":3,"maximum":1})",
        R"({"required":["a"],"properties":{"b":{}},"additionalProperties":false})",
        R"({"type":"string","minLength":-1})"})
    EXPECT_THROW(grammar_of(text), Error) << text;
  std::string deep = "true";
  for (int i = 0; i < 100; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_THROW(grammar_of(deep), Error);
  const auto named = [](size_t size, const char* others) {
    return R"({"type":"object","properties":{")" + std::string(size, 'a') + R"(":true},"additionalProperties":)" +
           others + "}";
  };
  EXPECT_NO_THROW(grammar_of(named(256, "true")));
  EXPECT_THROW(grammar_of(named(257, "true")), Error);
  EXPECT_NO_THROW(grammar_of(named(257, "false")));
}

// The mask of each state is what reading every token by itself says.
TEST(ConstraintMasks, EqualTheTokensOneByOne) {
  std::vector<std::string> tokens{"",   "{",     "}",      "[",    "]",    "\"",  ",",       ":",        " ",
                                  "a",  "b",     "1",      "2",    "{\"",  "\":", "\",",     "\"}",      "\"]",
                                  "ab", "\"a\"", "\"a\":", "12",   ".5",   "]}",  "},",      "true",     "tr",
                                  "ue", "null",  "é",      "\xc3", "\xa9", "\\",  "\\\"",    "\"a\": 1", "1}",
                                  "1,", "\"],",  "\"}]",   "}}",   "\n",   "-",   "\"b\":[", "true]"};
  const auto trie = std::make_shared<TokenTrie>(tokens);
  std::mt19937 random(1);
  for (
      const char* text :
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":true}},"additionalProperties":false})",
       "true",
       R"({"type":"array","items":{"type":"object","properties":{"a":{"enum":["a","ab",1]}},"required":["a"]}})",
       R"({"type":"string","maxLength":3})"}) {
    const CompiledGrammar keeping(grammar_of(text), trie), forgetting(grammar_of(text), trie, 0);
    for (int walk = 0; walk < 40; ++walk) {
      const CompiledGrammar& compiled = walk % 2 == 0 ? keeping : forgetting;
      Stacks stacks;
      Places places = start_of(compiled.grammar(), stacks);
      for (int step = 0; step < 20 && !places.items.empty(); ++step) {
        const std::vector<size_t> possible = expect_mask(compiled, stacks, places, tokens);
        ASSERT_FALSE(HasFailure()) << text;
        ASSERT_FALSE(possible.empty() && !places.ended) << text;
        if (possible.empty()) break;
        places = behind_text(compiled.grammar(), stacks, places, tokens[possible[random() % possible.size()]]);
      }
    }
  }
}

// Every string of at most `depth` of four bytes.
std::vector<std::string> short_strings(size_t depth) {
  std::vector<std::string> tokens{""};
  for (size_t i = 0; i < tokens.size() && tokens[i].size() < depth; ++i)
    for (const char byte : {'a', 'b', 'c', '"'}) tokens.push_back(tokens[i] + byte);
  return tokens;
}

// A text has many ways through the rules, which return to different places.
constexpr const char* kAmbiguous =
    "root ::= x \"c\"\nx ::= \"a\" x \"a\" | \"a\" x \"b\" | \"b\" x [ab] | y\ny ::= [ab]+ | [a-c] [ab] y?\n";

// Searches that stop as soon as they may, two at a time, which go on with what the other has found.
TEST(ConstraintMasks, AreTheSameInManyTurns) {
  const std::vector<std::string> tokens = short_strings(5);
  const auto trie = std::make_shared<TokenTrie>(tokens);
  for (const size_t most_bytes : {size_t{64} << 20, size_t{0}}) {
    const CompiledGrammar compiled(parse_gbnf(kAmbiguous), trie, most_bytes), whole(parse_gbnf(kAmbiguous), trie);
    Stacks stacks[2], whole_stacks;
    for (const char* text : {"", "a", "ab", "aba", "abaab"}) {
      std::vector<MaskSearch> searches;
      std::shared_ptr<const Mask> masks[2];
      for (Stacks& each : stacks)
        searches.emplace_back(behind_text(compiled.grammar(), each, start_of(compiled.grammar(), each), text));
      int turns = 0;
      for (; !masks[0] || !masks[1]; ++turns)
        for (const int i : {0, 1}) {
          WorkTime none(0);
          if (!masks[i]) masks[i] = compiled.go_on(searches[static_cast<size_t>(i)], stacks[i], none);
        }
      EXPECT_GT(turns, 3) << text;
      const Places places = behind_text(whole.grammar(), whole_stacks, start_of(whole.grammar(), whole_stacks), text);
      EXPECT_EQ(*masks[0], *masks[1]);
      EXPECT_EQ(*masks[0], *whole.allowed(places, whole_stacks)) << text;
      if (*text == 0) expect_mask(whole, whole_stacks, places, tokens);
    }
  }
}

TEST(ConstraintMasks, OfARowAreFoundInTurns) {
  const std::vector<std::string> tokens = short_strings(6);
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::vector<int64_t>{0});
  const auto first = make_constraint(vocabulary, Kind::kGbnf, kAmbiguous);
  const auto at_once = first->clone(), in_turns = first->clone();
  std::vector<uint32_t> mask((tokens.size() + 31) / 32), same(mask.size());
  int turns = 0;
  for (const size_t token : {1u, 6u, 25u, 101u}) {
    for (const auto& row : {at_once.get(), in_turns.get()}) row->accept(static_cast<int64_t>(token));
    while (!in_turns->prepare(0)) ++turns;
    in_turns->allowed(mask);
    at_once->allowed(same);
    EXPECT_EQ(mask, same) << tokens[token];
    EXPECT_TRUE(at_once->prepare(0));
  }
  EXPECT_GT(turns, 4);
}

// One grammar, two threads, each mask found by whoever comes first.
TEST(ConstraintMasks, AreFoundByManyThreads) {
  const std::vector<std::string> tokens = short_strings(5);
  const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::vector<int64_t>{0});
  const auto first = make_constraint(vocabulary, Kind::kGbnf, kAmbiguous);
  std::vector<std::vector<uint32_t>> found[2];
  std::vector<std::thread> askers;
  for (auto& masks : found)
    askers.emplace_back([&] {
      const auto row = first->clone();
      for (const int64_t token : {1, 6, 25, 101}) {
        row->accept(token);
        while (!row->prepare(0)) continue;
        masks.emplace_back((tokens.size() + 31) / 32);
        row->allowed(masks.back());
      }
    });
  for (std::thread& each : askers) each.join();
  EXPECT_EQ(found[0], found[1]);
}

}  // namespace
}  // namespace transom::constraint
