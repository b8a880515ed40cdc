// SPDX-License-Identifier: Apache-2.0
// Texts that are counted while they are read, against grammars in which all times are written out.
#include "work/generation/constraint/grammar/counter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/error.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/grammar/text_set.h"
#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TextSet set_in_json(const std::string& pattern) {
  return TextSet::of([&](GrammarBuilder& builder) { return regex_part(builder, pattern, {.in_json = true}); });
}

std::string random_pattern(std::mt19937& random, int depth) {
  static const char* const kAtoms[] = {"a", "b", "[ab]", "é", ".", "\"", "\n"};
  if (depth == 0 || random() % 3 == 0) return kAtoms[random() % std::size(kAtoms)];
  static const char* const kTimes[] = {"*", "+", "?", "{2}", "{1,3}", "{2,}"};
  const std::string inner = random_pattern(random, depth - 1);
  switch (random() % 3) {
    case 0:
      return inner + random_pattern(random, depth - 1);
    case 1:
      return "(" + inner + "|" + random_pattern(random, depth - 1) + ")";
    default:
      return "(" + inner + ")" + kTimes[random() % std::size(kTimes)];
  }
}

// At each byte of random texts both grammars say whether the text may go on, and whether it may end.
void expect_same_texts(const Grammar& a, const Grammar& b, std::mt19937& random, const std::string& what) {
  static const std::string kBytes = "ab\"\\n\xc3\xa9\xf0\x9f\x98\x80u0";
  for (int walk = 0; walk < 5; ++walk) {
    Stacks of_a, of_b;
    Places x = start_of(a, of_a), y = start_of(b, of_b);
    for (int step = 0; step < 300; ++step) {
      ASSERT_EQ(x.ended, y.ended) << what << " step " << step;
      std::vector<std::pair<Places, Places>> next;
      for (const char byte : kBytes) {
        Places after_x = behind(a, of_a, x, static_cast<uint8_t>(byte)),
               after_y = behind(b, of_b, y, static_cast<uint8_t>(byte));
        ASSERT_EQ(after_x.dead(), after_y.dead()) << what << " step " << step << " byte " << byte;
        if (!after_x.dead()) next.emplace_back(std::move(after_x), std::move(after_y));
      }
      if (next.empty()) break;
      std::tie(x, y) = next[random() % next.size()];
    }
  }
}

TEST(CountedTexts, AreThoseOfThePatternAndTheLength) {
  std::mt19937 random(7);
  int empty = 0, compared = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = random_pattern(random, 4);
    const int64_t least = random() % 4 == 0 ? 0 : static_cast<int64_t>(random() % 12);
    const int64_t most = random() % 4 == 0 ? -1 : least + static_cast<int64_t>(random() % 10);
    const std::string any =
        fmt::format("(.|\n|\r|\u2028|\u2029){{{},{}}}", least, most < 0 ? "" : std::to_string(most));
    const std::string what = fmt::format("{} of {} to {}", pattern, least, most);
    const TextSet set = set_in_json(pattern), both = set.both(set_in_json(any));
    GrammarBuilder builder, written_out;
    const uint32_t root = builder.add_rule(), other_root = written_out.add_rule();
    const auto counted = set.part_of_length(builder, least, most);
    ASSERT_EQ(!counted, both.empty()) << what;
    if (!counted) {
      ++empty;
      continue;
    }
    builder.define(root, *counted);
    written_out.define(other_root, both.part(written_out));
    expect_same_texts(builder.finish("counted"), written_out.finish("written out"), random, what);
    if (HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(empty, 5);
  EXPECT_GT(compared, 50);
}

TEST(CountedTexts, AreThoseOfRepetitions) {
  std::mt19937 random(8);
  for (const char* pattern : {"a{65,70}b", "(ab?){0,66}", "([ab]{65}){1,2}", "((a|b)+\"){65,}a", "(a{0,2}b){66,80}",
                              "x?(a*){70}b", "(a?){65,70}", "(ab|a{70,}){65,66}"}) {
    GrammarBuilder counting, writing(false);
    const uint32_t root = counting.add_rule(), other_root = writing.add_rule();
    counting.define(root, regex_part(counting, pattern));
    writing.define(other_root, regex_part(writing, pattern));
    const Grammar counted = counting.finish("counted");
    expect_same_texts(counted, writing.finish("written out"), random, pattern);
    if (HasFatalFailure()) return;
  }
}

// The counts that stand for others give them the same tokens, near the limits too, which long tokens reach.
TEST(CountedTexts, HaveTheTokensThatReadingThemGives) {
  std::vector<std::string> tokens{"\"", "b\"", "b", "ab",     "\xc3", "\xa9", "\xa9\"", "aa\"", "é",
                                  "éa", "\\",  "n", "\\n\\n", ",",    "]",    "\",\"",  "[\"",  "\"]"};
  for (const size_t size : {1, 2, 3, 7, 40}) tokens.emplace_back(size, 'a');
  const auto trie = std::make_shared<TokenTrie>(tokens);
  std::mt19937 random(9);
  for (const char* schema :
       {R"({"type":"string","minLength":90,"maxLength":300})",
        R"({"type":"string","pattern":"^(ab?)*$","maxLength":333})",
        R"({"type":"string","pattern":"^(aaa|b)*$","minLength":200,"maxLength":205})",
        R"({"type":"string","pattern":"^[ab]{100,400}$"})",
        R"({"type":"string","minLength":150,"pattern":"^(a|é)+b?$"})",
        R"({"type":"array","items":{"type":"string","pattern":"^(aa)*$","maxLength":81},"minItems":65,"maxItems":70})",
        R"({"type":"string","pattern":"^a+b?$","minLength":299,"maxLength":300})"}) {
    const CompiledGrammar compiled(grammar_of(schema), trie);
    for (int walk = 0; walk < 6; ++walk) {
      Stacks stacks;
      Places places = start_of(compiled.grammar(), stacks);
      for (int step = 0; step < 500 && !places.items.empty(); ++step) {
        const std::vector<size_t> possible = expect_mask(compiled, stacks, places, tokens);
        ASSERT_FALSE(HasFailure()) << schema << " step " << step;
        ASSERT_FALSE(possible.empty() && !places.ended) << schema;  // no text comes to a place without a way on
        if (possible.empty()) break;
        const bool longest = step % (walk + 2) != 0;
        const size_t token = longest ? possible.back() : possible[random() % possible.size()];
        places = behind_text(compiled.grammar(), stacks, places, tokens[token]);
      }
    }
  }
}

// What pydantic writes for HttpUrl, for columns of databases, and for constrained strings.
TEST(CountedTexts, TakeNoMoreMemoryForLargerLimits) {
  const auto nodes = [](const std::string& schema) { return grammar_of(schema).nodes.size(); };
  for (const char* schema :
       {R"({"type":"string","format":"uri","minLength":1,"maxLength":LIMIT})", R"({"type":"string","maxLength":LIMIT})",
        R"({"type":"string","minLength":LIMIT})", R"({"type":"string","pattern":"^[a-z]+$","maxLength":LIMIT})",
        R"({"type":"string","pattern":"^[a-z]{1,LIMIT}$"})",
        R"({"type":"array","items":{"type":"string","maxLength":LIMIT},"maxItems":LIMIT})",
        R"({"type":"array","minItems":LIMIT})",
        R"({"type":"object","additionalProperties":true,"maxProperties":LIMIT})"}) {
    const auto with_limit = [&](const char* limit) {
      std::string text = schema;
      for (size_t at = 0; (at = text.find("LIMIT")) != text.npos;) text.replace(at, 5, limit);
      return text;
    };
    EXPECT_EQ(nodes(with_limit("500")), nodes(with_limit("65535"))) << schema;
    EXPECT_LT(nodes(with_limit("65535")), 2000u) << schema;
  }
  Json many{{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 40; ++i)
    many["properties"]["p" + std::to_string(i)] = {{"type", "string"}, {"format", "uri"}, {"maxLength", 2083 + i}};
  EXPECT_LT(nodes(dump_json(many)), 25'000u);  // a URI of RFC 3986 is large, whatever its limit
  const Grammar one = grammar_of(R"({"type":"string","maxLength":65535})");
  EXPECT_TRUE(writes(one, "\"" + std::string(65535, 'a') + "\""));
  EXPECT_FALSE(writes(one, "\"" + std::string(65536, 'a') + "\""));
}

// Lengths that fit a pattern only in long periods, or in very many ways, are refused before they take long.
TEST(CountedTexts, AreRefusedWhereTheyTakeTooMuch) {
  const auto begin = std::chrono::steady_clock::now();
  std::string periods;
  for (const int prime : {7, 11, 13, 17, 19, 23, 29, 31}) periods += fmt::format("|(a{{{}}})*", prime);
  for (const std::string& pattern : {periods.substr(1), std::string("a{0,900}b{0,900}c{0,900}(ab|c){0,900}")}) try {
      grammar_of(dump_json(Json{{"type", "string"}, {"pattern", "^(" + pattern + ")$"}, {"maxLength", 900'000'000}}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  EXPECT_THROW(grammar_of(dump_json(
                   Json{{"type", "string"}, {"pattern", "^(" + periods.substr(1) + ")$"}, {"minLength", 900'000'000}})),
               Error);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 60);  // seconds on a busy machine; without a bound it would be hours
}

}  // namespace
}  // namespace transom::constraint
