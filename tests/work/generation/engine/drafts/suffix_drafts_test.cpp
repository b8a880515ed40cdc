// SPDX-License-Identifier: Apache-2.0
// What followed the last tokens of a text where they stood before, in it and in earlier answers.
#include "work/generation/engine/drafts/suffix_drafts.h"

#include <gtest/gtest.h>

#include "work/generation/engine/drafts/prompt_lookup.h"

namespace transom {
namespace {

// A text that writes what it is told to.
class Told {
 public:
  explicit Told(TokenIds prompt, const std::string& tenant = "", const std::string& salt = "") {
    auto taken = std::make_shared<AdmittedRequest>();
    taken->request.prompt.tokens = std::move(prompt);
    taken->request.tenant = tenant, taken->request.cache_salt = salt;
    taken->length = 1000;
    taken->rules = std::make_shared<const SamplingRules>(taken->request, taken->length, 100);
    sequence_ = std::make_unique<Sequence>(taken, 0, nullptr);
  }
  Told& writes(const TokenIds& tokens) {
    for (const int64_t token : tokens) {
      std::vector<float> scores(100, 0.0F);
      scores[static_cast<size_t>(token)] = 9;
      sequence_->choose({scores});
    }
    return *this;
  }
  const Sequence& sequence() const { return *sequence_; }

 private:
  std::unique_ptr<Sequence> sequence_;
};

TokenIds drafted(SuffixDrafts& drafts, const Told& text, int64_t most = 8) {
  Draft draft{.sequence = &text.sequence(), .most = most};
  drafts.draft(draft);
  drafts.forget(text.sequence());  // which goes
  EXPECT_LE(static_cast<int64_t>(draft.tokens.size()), most);
  return draft.tokens;
}

TEST(TokenChains, FindsTheLatestPlacesAndHowMuchMatches) {
  TokenChains places;
  for (const int64_t token : TokenIds{1, 2, 3, 4, 9, 2, 3, 5, TokenChains::kEnd, 2, 3, 7}) places.add(token);
  const TokenIds text{1, 2, 3};
  const std::vector<TokenChains::Match> found = places.find(text, 10);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(places.at(found[0].next), 7);
  EXPECT_EQ(found[0].length, 2);
  EXPECT_EQ(places.at(found[1].next), 5);
  EXPECT_EQ(places.at(found[2].next), 4);
  EXPECT_EQ(found[2].length, 3);
  EXPECT_EQ(places.find(text, 2)[2].length, 2);
  EXPECT_TRUE(places.find(TokenIds{5, 2}, 10).empty());  // across an end
  EXPECT_TRUE(places.find(TokenIds{3}, 10).empty());
}

TEST(TokenChains, LooksAtSoManyPlacesAndNoMore) {
  TokenChains places;
  for (int i = 0; i < 1000; ++i) places.add(i % 2);
  EXPECT_EQ(static_cast<int64_t>(places.find(TokenIds{0, 1}, 24).size()), TokenChains::kMost);
}

TEST(SuffixDrafts, GoOnAsTheTextItselfDid) {
  SuffixDrafts drafts({});
  EXPECT_EQ(drafted(drafts, Told({1, 2, 3, 4, 5, 6, 1, 2, 3})), (TokenIds{4, 5, 6}));  // as long as the match
  EXPECT_TRUE(drafted(drafts, Told({1, 2, 3, 4})).empty());
  EXPECT_EQ(drafted(drafts, Told({1, 2, 3, 4, 5, 6, 1, 2, 3}), 2), (TokenIds{4, 5}));
  SuffixDrafts longer({.suffix_factor = 2});
  EXPECT_EQ(drafted(longer, Told({1, 2, 3, 4, 5, 6, 1, 2, 3})), (TokenIds{4, 5, 6, 1, 2, 3}));
}

TEST(SuffixDrafts, TakeWhatFollowedMostOften) {
  SuffixDrafts drafts({.suffix_factor = 4});
  const Told text({1, 2, 7, 1, 2, 8, 1, 2, 7, 1, 2, 8, 1, 2, 8, 5, 1, 2});
  EXPECT_EQ(drafted(drafts, text, 1), (TokenIds{8}));
  SuffixDrafts sure({.suffix_factor = 4, .suffix_least = 0.9});
  EXPECT_TRUE(drafted(sure, text).empty());
}

TEST(SuffixDrafts, AnswersOfOthersAreFoundByTheirTenantAlone) {
  SuffixDrafts drafts({.suffix_factor = 2});
  Told first({50, 51}, "a"), other({50, 51}, "b"), salted({60}, "a", "x");
  first.writes({1, 2, 3, 4, 5});
  drafts.keep(first.sequence());
  drafts.forget(first.sequence());
  EXPECT_EQ(drafted(drafts, Told({9, 1, 2}, "a")), (TokenIds{3, 4, 5}));
  EXPECT_TRUE(drafted(drafts, Told({9, 1, 2}, "b")).empty());
  EXPECT_TRUE(drafted(drafts, Told({9, 1, 2}, "a", "x")).empty());
  EXPECT_TRUE(drafted(drafts, Told({9, 1, 2}, "", "a")).empty());
  EXPECT_TRUE(drafted(drafts, Told({9, 50, 51}, "a")).empty());  // prompts are not kept
}

TEST(SuffixDrafts, TheMemoryOfAnswersIsBounded) {
  constexpr int64_t kBytes = 64 << 10;
  SuffixDrafts drafts({.suffix_bytes = kBytes});
  TokenIds last;
  for (int64_t i = 0; i < 300; ++i) {
    Told text({1}, i % 3 == 0 ? "a" : std::to_string(i));
    last.clear();
    for (int64_t n = 0; n < 40; ++n) last.push_back((i * 7 + n * n + n) % 100);
    drafts.keep(text.writes(last).sequence());
    EXPECT_LE(drafts.bytes(), kBytes);
  }
  EXPECT_GT(drafts.bytes(), kBytes / 8);
  EXPECT_FALSE(drafted(drafts, Told({last[5], last[6], last[7]}, "299")).empty());
  SuffixDrafts none({.suffix_bytes = 0});
  none.keep(Told({1}).writes({1, 2, 3, 4}).sequence());
  EXPECT_TRUE(drafted(none, Told({1, 2})).empty());
}

TEST(PromptLookup, TriesTheMostTokensFirst) {
  const TokenIds text{1, 2, 3, 9, 2, 3, 8, 1, 2, 3};
  EXPECT_EQ(prompt_lookup(text, 1, 3, 2), (TokenIds{9, 2}));
  EXPECT_EQ(prompt_lookup(text, 1, 2, 2), (TokenIds{8, 1}));
  EXPECT_TRUE(prompt_lookup(text, 4, 5, 2).empty());
  EXPECT_TRUE(prompt_lookup(text, 1, 3, 0).empty());
}

}  // namespace
}  // namespace transom
