// SPDX-License-Identifier: Apache-2.0
// Text as the engine hands it out: whole characters, no part of a stop string.
#include "generation/engine/text_deltas.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
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

const Pieces kWords = {"a",  "b", " c",     "<0xE4>", "<0xBD>", "<0xA0>", "END",    "\n",
                       "EN", "D", "<0x0A>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x56>"};

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

// Tokenizers of the LLaMA family write the end of a line as a byte; a run of bytes is decoded as a whole.
TEST(TextDeltas, ACharacterOfFourBytesBehindAByteLosesNothing) {
  EXPECT_EQ(given({0, 10, 11, 12, 13, 14, 1}, {}), (Pieces{"a", "\n", "", "", "", "\xF0\x9F\x98\x80", "b", ""}));
  // Where it never becomes a character, no byte of what went out comes again.
  EXPECT_EQ(given({10, 11, 15, 0, 1}, {}), (Pieces{"\n", "", "",
                                                   "\xEF\xBF\xBD\xEF\xBF\xBD"
                                                   "a",
                                                   "b", ""}));
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

TEST(TextDeltas, TellsWhatTheLastTokensSayBehindTheText) {
  const Tokenizer tokenizer = tokenizer_of(kWords);
  TextDeltas stopped(&tokenizer, {0}, {"N"});
  EXPECT_FALSE(stopped.add(1));
  EXPECT_TRUE(stopped.add(6));
  EXPECT_EQ(stopped.take(), "bE");
  EXPECT_EQ(stopped.rest(), "ND");  // all of the token, not the stop string alone
  TextDeltas ended(&tokenizer, {0}, {"END"});
  EXPECT_FALSE(ended.add(8));
  ended.finish_with(2);
  EXPECT_EQ(ended.take(), "EN");
  EXPECT_EQ(ended.rest(), " c");
  TextDeltas whole(&tokenizer, {0}, {});
  EXPECT_FALSE(whole.add(1));
  whole.finish();
  EXPECT_EQ(whole.rest(), "");
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
