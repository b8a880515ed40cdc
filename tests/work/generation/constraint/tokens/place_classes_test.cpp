// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/tokens/place_classes.h"

#include <algorithm>
#include <random>

#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/schema_texts.h"
#include "work/generation/constraint/tokens/token_masks.h"

namespace transom::constraint {
namespace {

// The masks of counted texts are found once for all counts that no token tells apart.
TEST(PlaceClasses, ShareMasks) {
  GrammarBuilder builder(false);  // writes all times out
  const uint32_t root = builder.add_rule();
  builder.define(root, regex_part(builder, "(b[a]{0,60}c){0,60}"));
  const Grammar grammar = builder.finish("test");
  const std::vector<uint32_t> alike = PlaceClasses(grammar, 6).of_tokens();
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
      const std::vector<size_t> possible = expect_mask(compiled, stacks, places, tokens);
      ASSERT_FALSE(HasFailure()) << step;
      if (possible.empty()) break;
      // Long strings in every other walk, long lists in the others.
      const size_t wanted = walk % 2 == 0 ? 7 : 8;
      const bool can = std::find(possible.begin(), possible.end(), wanted) != possible.end();
      const size_t token = can && random() % 4 != 0 ? wanted : possible[random() % possible.size()];
      places = behind_text(compiled.grammar(), stacks, places, tokens[token]);
    }
  }
}

}  // namespace
}  // namespace transom::constraint
