// SPDX-License-Identifier: Apache-2.0
// Text as the engine hands it out: whole characters, no part of a stop string.
#include "generation/engine/text_deltas.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/message.h"
#include "transom/error.h"

namespace transom {
namespace {

using Pieces = std::vector<std::string>;

// Words stand for themselves and are put one behind the other; <0xE4> is a byte.
Tokenizer tokenizer_of(const Pieces& words) {
  Json vocabulary = Json::object();
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  const Json tokenizer{
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", words[0]}}}};
  return Tokenizer::from_json(dump_json(tokenizer));
}

const Pieces kWords = {"a", "b", " c", "<0xE4>", "<0xBD>", "<0xA0>", "END", "\n", "EN", "D"};

// What goes out with each token, and what at the end.
Pieces given(const TokenIds& tokens, const Pieces& stops, std::optional<std::string>* stop = nullptr,
             const TokenIds& prompt = {0}) {
  const Tokenizer tokenizer = tokenizer_of(kWords);
  TextDeltas text(&tokenizer, prompt, stops);
  Pieces pieces;
  for (const int64_t token : tokens) {
    const bool ended = text.add(token);
    pieces.push_back(text.take());
    if (ended) break;
  }
  text.finish();
  pieces.push_back(text.take());
  if (stop) *stop = text.stop();
  return pieces;
}

TEST(TextDeltas, GivesEachTokensText) { EXPECT_EQ(given({0, 1, 2, 7}, {}), (Pieces{"a", "b", " c", "\n", ""})); }

TEST(TextDeltas, HoldsHalfACharacterBack) {
  EXPECT_EQ(given({0, 3, 4, 5, 1}, {}), (Pieces{"a", "", "", "你", "b", ""}));
  // Bytes that become no character come out once that is sure.
  EXPECT_EQ(given({3, 1}, {}), (Pieces{"",
                                       "\xEF\xBF\xBD"
                                       "b",
                                       ""}));
  EXPECT_EQ(given({3}, {}), (Pieces{"", "\xEF\xBF\xBD"}));
}

TEST(TextDeltas, EndlessHalvesOfCharactersGoOutAndCostNoMoreAndMore) {
  std::string all;
  for (const std::string& piece : given(TokenIds(100, 3), {})) all += piece;
  EXPECT_EQ(all.size(), 300u);
}

TEST(TextDeltas, FinishesACharacterThatThePromptBegan) {
  EXPECT_EQ(given({5, 1}, {}, nullptr, {0, 3, 4}), (Pieces{"你", "b", ""}));
}

TEST(TextDeltas, EndsAtAStopString) {
  std::optional<std::string> stop;
  EXPECT_EQ(given({0, 6, 1}, {"END"}, &stop), (Pieces{"a", "", ""}));
  EXPECT_EQ(stop, "END");
  EXPECT_EQ(given({0, 2}, {"x", "c"}, &stop), (Pieces{"a", " ", ""}));
  EXPECT_EQ(stop, "c");
}

TEST(TextDeltas, HoldsTheBeginningOfAStopStringBack) {
  std::optional<std::string> stop;
  EXPECT_EQ(given({0, 8, 9, 1}, {"END"}, &stop), (Pieces{"a", "", "", ""}));
  EXPECT_EQ(stop, "END");
  EXPECT_EQ(given({0, 8, 1}, {"END"}, &stop), (Pieces{"a", "", "ENb", ""}));
  EXPECT_EQ(stop, std::nullopt);
  // At the end no more can follow.
  EXPECT_EQ(given({0, 8}, {"END"}, &stop), (Pieces{"a", "", "EN"}));
}

TEST(TextDeltas, TakesTheFirstOfSeveralStopStrings) {
  std::optional<std::string> stop;
  EXPECT_EQ(given({0, 1, 6}, {"ND", "E"}, &stop), (Pieces{"a", "b", "", ""}));
  EXPECT_EQ(stop, "E");
}

TEST(TextDeltas, RefusesWhatCannotBeFound) {
  EXPECT_THROW(given({0}, {""}), Error);
  EXPECT_THROW(TextDeltas(nullptr, {0}, {"a"}), Error);
}

TEST(TextDeltas, WithoutATokenizerThereIsNoText) {
  TextDeltas text(nullptr, {0}, {});
  EXPECT_FALSE(text.add(1));
  text.finish();
  EXPECT_EQ(text.take(), "");
}

}  // namespace
}  // namespace transom
