// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/text_set.h"

#include "base/error.h"
#include "work/generation/constraint/grammar/regex.h"
#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

TextSet set_of(const std::string& pattern) {
  return TextSet::of([&](GrammarBuilder& builder) { return regex_part(builder, pattern); });
}

Grammar grammar_of_set(const TextSet& set) {
  GrammarBuilder builder;
  const uint32_t root = builder.add_rule();
  builder.define(root, set.part(builder));
  return builder.finish("test");
}

TEST(TextSet, IsIntersectedAndTakenAway) {
  const Grammar both = grammar_of_set(set_of("[a-c]*").both(set_of(".{2,3}")));
  for (const char* text : {"ab", "ccc"}) EXPECT_TRUE(writes(both, text)) << text;
  for (const char* text : {"", "a", "abca", "ad"}) EXPECT_FALSE(writes(both, text)) << text;
  const Grammar rest = grammar_of_set(set_of("[a-c]{1,2}").without(set_of("a.|c")));
  for (const char* text : {"a", "b", "ba", "cc"}) EXPECT_TRUE(writes(rest, text)) << text;
  for (const char* text : {"aa", "ac", "c", ""}) EXPECT_FALSE(writes(rest, text)) << text;
  EXPECT_TRUE(set_of("a+").both(set_of("b+")).empty());
  EXPECT_TRUE(set_of("ab").without(set_of("a.")).empty());
  EXPECT_FALSE(set_of("a?").without(set_of("a")).empty());
  EXPECT_TRUE(TextSet::of([](GrammarBuilder& builder) { return builder.either({}); }).empty());
}

TEST(TextSet, TellsMultiples) {
  for (const int64_t divisor : {1, 3, 7, 10, 1000}) {
    const Grammar grammar = grammar_of_set(TextSet::multiples_of(divisor));
    for (int64_t number = -50; number <= 2000; number += 3)
      EXPECT_EQ(writes(grammar, std::to_string(number)), number % divisor == 0) << number << ' ' << divisor;
  }
  EXPECT_THROW(TextSet::multiples_of(0), Error);
  EXPECT_THROW(TextSet::multiples_of(1001), Error);
}

// A character so far from the end: twice as many states for each place further.
TEST(TextSet, RefusesWhatNeedsTooManyStates) {
  EXPECT_THROW(set_of("[ab]*a[ab]{16}"), Error);
  EXPECT_NO_THROW(set_of("[ab]*a[ab]{6}"));
}

}  // namespace
}  // namespace transom::constraint
