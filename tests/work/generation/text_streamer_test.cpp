// SPDX-License-Identifier: Apache-2.0
// Text as it is streamed. The expected pieces are what Transformers' TextStreamer prints.
#include <gtest/gtest.h>

#include <utility>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "transom/generation.h"

namespace transom {
namespace {

using Pieces = std::vector<std::string>;

// Words stand for themselves, and are put one behind the other.
Tokenizer tokenizer_of(const test::TemporaryFolder& folder, const Pieces& words,
                       const Json& decoder = {{"type", "Fuse"}}) {
  Json vocabulary = Json::object();
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  const Json tokenizer{{"version", "1.0"},
                       {"added_tokens", Json::array()},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", nullptr},
                       {"post_processor", nullptr},
                       {"decoder", decoder},
                       {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", words[0]}}}};
  write_file(folder / "tokenizer.json", dump_json(tokenizer));
  return Tokenizer::from_pretrained(folder.string());
}

// What each token makes the streamer print; the last piece is what comes at the end.
Pieces streamed(const Pieces& words) {
  const test::TemporaryFolder folder;
  Pieces pieces;
  std::string now;
  TextStreamer streamer(tokenizer_of(folder, words), [&](std::string_view text) { now += text; });
  for (size_t i = 0; i < words.size(); ++i) {
    streamer.put({static_cast<int64_t>(i)});
    pieces.push_back(std::exchange(now, ""));
  }
  streamer.end();
  pieces.push_back(now);
  return pieces;
}

TEST(TextStreamer, PrintsUpToTheLastSpace) {
  EXPECT_EQ(streamed({"a small", " mod", "el", " end"}), (Pieces{"a ", "small ", "", "model ", "end"}));
}

TEST(TextStreamer, PrintsALineAtItsEnd) { EXPECT_EQ(streamed({"a\n", "b"}), (Pieces{"a\n", "", "b"})); }

// Transformers loses a space of each line.
TEST(TextStreamer, LinesKeepTheirSpaces) {
  const Json llama{{"type", "Sequence"},
                   {"decoders",
                    {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}},
                     {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = tokenizer_of(folder, {"▁if", "▁a", ":", "<0x0A>", "▁▁▁▁return", "▁b"}, llama);
  const TokenIds ids{0, 1, 2, 3, 4, 5, 3, 3, 4};
  std::string text;
  TextStreamer streamer(tokenizer, [&](std::string_view piece) { text += piece; });
  for (const int64_t id : ids) streamer.put({id});
  streamer.end();
  EXPECT_EQ(text, "if a:\n    return b\n\n    return");
  EXPECT_EQ(text, tokenizer.decode(ids));
}

TEST(TextStreamer, PrintsChineseCharactersAtOnce) {
  EXPECT_EQ(streamed({"你好", "，", "世界"}), (Pieces{"你好", "", "，世界", ""}));
  EXPECT_EQ(streamed({"a b", "中", "c", " d"}), (Pieces{"a ", "b中", "", "c ", "d"}));
}

// Kana and Thai letters are no CJK characters for Transformers either: they wait for one, a space or the end.
TEST(TextStreamer, HoldsJapaneseKanaAndThaiUntilTheyAreSettled) {
  EXPECT_EQ(streamed({"これは", "日本", "語です"}), (Pieces{"", "これは日本", "", "語です"}));
  EXPECT_EQ(streamed({"สวัส", "ดี ", "ครับ"}), (Pieces{"", "สวัสดี ", "", "ครับ"}));
}

}  // namespace
}  // namespace transom
