// SPDX-License-Identifier: Apache-2.0
// From Whisper's tokens to text.
#include "work/pipelines/audio/whisper/whisper_text.h"

#include <gtest/gtest.h>

#include "inputs/audio/whisper_languages.h"

namespace transom {
namespace {

// Words 4 to 9, specials 0 to 3; timestamps from 4 on would hide the words, so <|notimestamps|> stands last.
Tokenizer tokenizer() {
  const auto added = [](int id, const char* content) {
    return R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content +
           R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  };
  return Tokenizer::from_json(
      R"({"version": "1.0", "added_tokens": [)" + added(0, "<|endoftext|>") + "," + added(1, "<|startoftranscript|>") +
      "," + added(2, "<|en|>") + "," + added(3, "<|startofprev|>") + "," + added(10, "<|notimestamps|>") +
      R"(], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
         "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"<|endoftext|>": 0, "<|startoftranscript|>": 1,
         "<|en|>": 2, "<|startofprev|>": 3, "a": 4, "b": 5, "c": 6, "d": 7, "e": 8, "f": 9, "<|notimestamps|>": 10}}})");
}

// The token of a time.
int64_t at(double seconds) { return 11 + static_cast<int64_t>(seconds / 0.02 + 0.5); }

TEST(JoinedWhereAlike, KeepsOverlapsOnce) {
  EXPECT_EQ(joined_where_alike({{1, 2, 3, 4}, {3, 4, 5}}), (TokenIds{1, 2, 3, 4, 5}));
  EXPECT_EQ(joined_where_alike({{1, 2, 3, 9}, {2, 3, 4, 5}}), (TokenIds{1, 2, 3, 4, 5}));  // the right one knows better
  EXPECT_EQ(joined_where_alike({{1, 2}, {3, 4}}), (TokenIds{1, 2, 3, 4}));
  EXPECT_EQ(joined_where_alike({{1, 2}, {2, 3}}), (TokenIds{1, 2, 2, 3}));  // one alone may be chance
  EXPECT_EQ(joined_where_alike({{1, 2, 3}, {2, 3, 4}, {3, 4, 5}}), (TokenIds{1, 2, 3, 4, 5}));
  EXPECT_TRUE(joined_where_alike({}).empty());
}

TEST(WhisperText, WithoutTimestampsIsOneSegment) {
  const auto segments = whisper_segments(tokenizer(), {{{1, 2, 4, 5, 0}, std::nullopt}}, {});
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].text, "a b");
  EXPECT_EQ(segments[0].language, "english");
  EXPECT_FALSE(segments[0].begin);
}

TEST(WhisperText, IsCutAtPairsOfTimestamps) {
  const TokenIds tokens = {at(0), 4, 5, at(1), at(1), 6, at(2.5)};
  const auto segments = whisper_segments(tokenizer(), {{tokens, std::nullopt}}, {.timestamps = true});
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].text, "a b");
  EXPECT_NEAR(*segments[0].begin, 0, 1e-9);
  EXPECT_NEAR(*segments[0].end, 1, 1e-9);
  EXPECT_EQ(segments[1].text, "c");
  EXPECT_NEAR(*segments[1].begin, 1, 1e-9);
  EXPECT_NEAR(*segments[1].end, 2.5, 1e-9);
}

TEST(WhisperText, OfAnUnfinishedSegmentHasNoEnd) {
  const auto segments = whisper_segments(tokenizer(), {{{at(0.5), 4, 5}, std::nullopt}}, {.timestamps = true});
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_NEAR(*segments[0].begin, 0.5, 1e-9);
  EXPECT_FALSE(segments[0].end);
}

TEST(WhisperText, OfChunksThatOverlapIsJoined) {
  const WhisperPiece first{{4, 5, 6, 7}, WhisperPiece::Stride{3, 0, 1}},
      second{{6, 7, 8}, WhisperPiece::Stride{3, 1, 0}};
  const auto segments = whisper_segments(tokenizer(), {first, second}, {});
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].text, "a b c d e");
}

TEST(WhisperText, OfChunksIsTimedFromTheBeginning) {
  // The second chunk begins 2 s behind the first, and its first second belongs to the first chunk too.
  const WhisperPiece first{{at(0), 4, 5, at(1.5), at(1.5), 6, at(2.6)}, WhisperPiece::Stride{3, 0, 0.5}},
      second{{at(0.2), 6, at(0.6), at(1.4), 7, 8, at(2)}, WhisperPiece::Stride{3, 0.5, 0}};
  const auto segments = whisper_segments(tokenizer(), {first, second}, {.timestamps = true});
  ASSERT_FALSE(segments.empty());
  EXPECT_EQ(segments[0].text, "a b");
  EXPECT_NEAR(*segments[0].end, 1.5, 1e-9);
  for (size_t i = 1; i < segments.size(); ++i) EXPECT_GE(*segments[i].begin, *segments[i - 1].end - 1e-9);
}

TEST(WhisperLanguages, HaveNamesAndCodes) {
  EXPECT_EQ(whisper_language("de"), "german");
  EXPECT_EQ(whisper_language("xx"), "");
  EXPECT_EQ(whisper_language_code("german"), "de");
  EXPECT_EQ(whisper_language_code("de"), "de");
  EXPECT_EQ(whisper_language_code("castilian"), "es");
  EXPECT_EQ(whisper_language_code("klingon"), "");
}

}  // namespace
}  // namespace transom
