// SPDX-License-Identifier: Apache-2.0
// Text as the engine hands it out: whole characters, no part of a stop string.
#include "work/generation/engine/text_deltas.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json/json.h"
#include "support/message.h"
#include "support/scripted_model.h"
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
  TextDeltas text(&tokenizer, prompt, {stops});
  Pieces pieces;
  for (const int64_t token : tokens) {
    const bool ended = text.add(token);
    pieces.push_back(text.take().text);
    if (ended) break;
  }
  text.finish();
  pieces.push_back(text.take().text);
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
  TextDeltas stopped(&tokenizer, {0}, {{"N"}});
  EXPECT_FALSE(stopped.add(1));
  EXPECT_TRUE(stopped.add(6));
  EXPECT_EQ(stopped.take().text, "bE");
  EXPECT_EQ(stopped.rest(), "ND");  // all of the token, not the stop string alone
  TextDeltas ended(&tokenizer, {0}, {{"END"}});
  EXPECT_FALSE(ended.add(8));
  ended.finish_with(2);
  EXPECT_EQ(ended.take().text, "EN");
  EXPECT_EQ(ended.rest(), " c");
  TextDeltas whole(&tokenizer, {0}, {});
  EXPECT_FALSE(whole.add(1));
  whole.finish();
  EXPECT_EQ(whole.rest(), "");
}

TEST(TextDeltas, RefusesWhatCannotBeFound) {
  EXPECT_THROW(given({0}, {""}), Error);
  EXPECT_THROW(TextDeltas(nullptr, {0}, {{"a"}}), Error);
}

TEST(TextDeltas, WithoutATokenizerThereIsNoText) {
  TextDeltas text(nullptr, {0}, {});
  EXPECT_FALSE(text.add(1));
  text.finish();
  EXPECT_EQ(text.take().text, "");
}

// What is shown of bytes and special tokens (256: </s>, 257: <call>), each step, and the stop string that ends it.
std::pair<std::string, std::optional<std::string>> shown(const TokenIds& tokens, const TextDeltas::Rules& rules) {
  static const Tokenizer tokenizer = Tokenizer::from_json(dump_json(test::byte_tokenizer({"</s>", "<call>"}, {})));
  TextDeltas text(&tokenizer, {'x'}, rules);
  std::string all, of_pieces;
  const auto take = [&] {
    const TextDeltas::Delta delta = text.take();
    all += delta.text;
    for (const TextPiece& piece : delta.pieces)
      if (!piece.special || !rules.skip_special_tokens) of_pieces += piece.text;
  };
  for (const int64_t token : tokens) {
    const bool ended = text.add(token);
    take();
    if (ended) break;
  }
  text.finish();
  take();
  EXPECT_EQ(all, of_pieces);
  return {all, text.stop()};
}

TEST(TextDeltas, StopStringsAreFoundInSpecialTokensThatAreNotShown) {
  using Shown = std::pair<std::string, std::optional<std::string>>;
  const TokenIds text{'a', 257, 'b', 'c'};
  EXPECT_EQ(shown(text, {}), Shown("abc", std::nullopt));
  EXPECT_EQ(shown(text, {.stop_strings = {"<call>"}}), Shown("a", "<call>"));
  EXPECT_EQ(shown(text, {.stop_strings = {"<call>b"}}), Shown("a", "<call>b"));
  EXPECT_EQ(shown(text, {.stop_strings = {"a<call>"}}), Shown("", "a<call>"));
  // What is shown holds no stop string either, and a part of what is not shown ends nothing.
  EXPECT_EQ(shown(text, {.stop_strings = {"ab"}}), Shown("", "ab"));
  EXPECT_EQ(shown(text, {.stop_strings = {"call"}}), Shown("abc", std::nullopt));
  const auto open = [](std::vector<std::string> stops) {
    return TextDeltas::Rules{.stop_strings = std::move(stops), .skip_special_tokens = false};
  };
  EXPECT_EQ(shown(text, open({})), Shown("a<call>bc", std::nullopt));
  EXPECT_EQ(shown(text, open({"call"})), Shown("a<", "call"));
  EXPECT_EQ(shown(text, open({"ab"})), Shown("a<call>bc", std::nullopt));
  EXPECT_EQ(shown(text, open({"l>b"})), Shown("a<cal", "l>b"));
}

TEST(TextDeltas, TheFirstTokensEndNothing) {
  using Shown = std::pair<std::string, std::optional<std::string>>;
  const TokenIds text{'a', 'b', 'a', 'b', 'c', 'a', 'b'};
  EXPECT_EQ(shown(text, {.stop_strings = {"ab"}, .stop_after = 1}), Shown("", "ab"));
  EXPECT_EQ(shown(text, {.stop_strings = {"ab"}, .stop_after = 2}), Shown("ab", "ab"));
  EXPECT_EQ(shown(text, {.stop_strings = {"ab"}, .stop_after = 3}), Shown("ab", "ab"));
  EXPECT_EQ(shown(text, {.stop_strings = {"ab"}, .stop_after = 4}), Shown("ababc", "ab"));
  EXPECT_EQ(shown(text, {.stop_strings = {"b"}, .stop_after = 9}), Shown("ababcab", std::nullopt));
}

// The text ends before the first stop string that is complete, with special tokens or in what is shown, whatever is
// held back on the way.
TEST(TextDeltas, RandomTextsEndAtTheirFirstStopString) {
  std::mt19937 random(3);
  const auto any = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  const std::vector<std::string> kParts{"a", "b", "</s>", "<call>", "c", "<", "s>"};
  size_t ended = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    TokenIds ids;
    for (size_t i = any(12) + 1; i > 0; --i)
      ids.push_back(any(3) ? static_cast<int64_t>('a' + any(3)) : static_cast<int64_t>(256 + any(2)));
    TextDeltas::Rules rules;
    rules.skip_special_tokens = any(2);
    rules.stop_after = static_cast<int64_t>(any(4));
    for (size_t i = any(3); i > 0; --i) {
      std::string stop;
      for (size_t k = any(3) + 1; k > 0; --k) stop += kParts[any(kParts.size())];
      rules.stop_strings.push_back(stop);
    }
    // Token by token, without holding anything back.
    std::string full, seen;
    std::vector<bool> hidden;  // each byte of the full text
    std::vector<bool> inner;   // whether it stands within a special token, not at its beginning
    bool found = false;
    for (size_t i = 0; i < ids.size() && !found; ++i) {
      const std::string piece = ids[i] == 256   ? "</s>"
                                : ids[i] == 257 ? "<call>"
                                                : std::string(1, static_cast<char>(ids[i]));
      const size_t before = full.size(), seen_before = seen.size();
      for (size_t k = 0; k < piece.size(); ++k) {
        full += piece[k];
        hidden.push_back(rules.skip_special_tokens && ids[i] >= 256);
        inner.push_back(hidden.back() && k > 0);
        if (!hidden.back()) seen += piece[k];
      }
      if (static_cast<int64_t>(i) < rules.stop_after) continue;
      size_t first = std::string::npos;  // bytes that are shown before the stop string
      for (const std::string& stop : rules.stop_strings) {
        for (size_t at = 0; at + stop.size() <= full.size(); ++at) {
          if (at + stop.size() <= before || full.compare(at, stop.size(), stop) != 0 || inner[at]) continue;
          if (at + stop.size() < full.size() && inner[at + stop.size()]) continue;
          first = std::min(first, static_cast<size_t>(
                                      std::count(hidden.begin(), hidden.begin() + static_cast<ptrdiff_t>(at), false)));
        }
        for (size_t at = 0; at + stop.size() <= seen.size(); ++at)
          if (at + stop.size() > seen_before && seen.compare(at, stop.size(), stop) == 0) first = std::min(first, at);
      }
      if (first == std::string::npos) continue;
      found = true;
      seen.resize(first);
    }
    ended += found;
    const auto [text, stop] = shown(ids, rules);
    EXPECT_EQ(text, seen);
    EXPECT_EQ(stop.has_value(), found);
  }
  EXPECT_GT(ended, 100u);
}

}  // namespace
}  // namespace transom
