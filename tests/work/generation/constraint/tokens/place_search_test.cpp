// SPDX-License-Identifier: Apache-2.0
// Places that are found beside others have the tokens that reading each token by itself gives: in a vocabulary large
// enough for it, over rules that differ a little.
#include "work/generation/constraint/tokens/place_search.h"

#include <random>
#include <set>

#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

std::vector<std::string> drawn_tokens(size_t count) {
  static const std::vector<std::string> kPieces{"a",  "b",   "m",      "n",        "e", "na",    "me",   "\"",
                                                "\"", ",",   ":",      "{",        "}", "[",     "]",    " ",
                                                "é",  "\\n", "\\u00e", "\xe2\x82", "1", "\":\"", "\",\""};
  std::mt19937 random(3);
  std::set<std::string> tokens(kPieces.begin(), kPieces.end());
  while (tokens.size() < count) {
    std::string token;
    for (size_t i = 0, length = 1 + random() % 6; i < length; ++i)
      token += kPieces[random() % 4 == 0 ? random() % kPieces.size() : random() % 7];
    tokens.insert(token);
  }
  return {tokens.begin(), tokens.end()};
}

void expect_walks(const std::string& schema, size_t most_bytes) {
  static const std::vector<std::string> tokens = drawn_tokens(2500);
  static const auto trie = std::make_shared<TokenTrie>(tokens);
  ASSERT_GT(trie->size(), 3000u);
  const CompiledGrammar compiled(grammar_of(schema), trie, most_bytes);
  std::mt19937 random(4);
  for (int walk = 0; walk < 3; ++walk) {
    Stacks stacks;
    Places places = start_of(compiled.grammar(), stacks);
    for (int step = 0; step < 12 && !places.items.empty(); ++step) {
      const std::vector<size_t> possible = expect_mask(compiled, stacks, places, tokens);
      ASSERT_FALSE(testing::Test::HasFailure()) << schema << " step " << step;
      if (possible.empty()) break;
      places = behind_text(compiled.grammar(), stacks, places, tokens[possible[random() % possible.size()]]);
    }
  }
}

TEST(PlaceSearch, NamesThatAreNoneOfOthers) {
  expect_walks(R"({"properties":{"name":{"type":"string"},"nab":{"type":"object","properties":{"me":{"type":"string"}},
                                 "additionalProperties":{"type":"string"}}},"additionalProperties":{"type":"string"},
                   "type":"object"})",
               64 << 20);
}

TEST(PlaceSearch, CountedTexts) {
  for (const size_t most_bytes : {size_t{64} << 20, size_t{0}})
    expect_walks(R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":30,"minLength":4},
                     {"type":"array","items":{"type":"string","maxLength":300}},{"type":"string","pattern":"^n(am|e)*$"}]}})",
                 most_bytes);
}

// One place within a text returns to as many places as there are depths, of which each has tokens of its own.
TEST(PlaceSearch, TextsWithinListsOfAllDepths) {
  for (const size_t most_bytes : {size_t{64} << 20, size_t{4} << 10, size_t{0}})
    expect_walks(R"({"$ref":"#/$defs/list","$defs":{"list":{"type":"array","items":{"anyOf":[{"type":"string"},
                     {"$ref":"#/$defs/list"},{"type":"object","additionalProperties":{"$ref":"#/$defs/list"}}]}}}})",
                 most_bytes);
}

// What is alike for short texts only is not taken for the same behind long ones.
TEST(PlaceSearch, LimitsWithinReachOfATokenCount) {
  for (const int most : {1, 3, 6})
    expect_walks(R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":)" + std::to_string(most) +
                     R"(},{"type":"object","properties":{"a":{"type":"string","maxLength":)" +
                     std::to_string(most + 1) + R"(}},"required":["a"]}]}})",
                 64 << 20);
}

}  // namespace
}  // namespace transom::constraint
