// SPDX-License-Identifier: Apache-2.0
// Text that comes token by token is the text that all tokens have.
#include "work/generation/incremental_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "support/scripted_model.h"

namespace transom {
namespace {

struct Kind {
  const char* name;
  Tokenizer tokenizer;
};

Json word_tokenizer(const std::vector<std::string>& words, Json decoder) {
  Json vocabulary = Json::object(), added = Json::array();
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  for (const char* content : {"</s>", "<call>"})
    added.push_back({{"id", words.size() + added.size()}, {"content", content}, {"special", true}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", words[0]}}}};
}

// As tokenizers of GPT-2, LLaMA and BERT write.
std::vector<Kind> kinds() {
  const std::vector<std::string> bytes{"a",      "▁b",     "c",      "<0xF0>", "<0x9F>", "<0x98>",
                                       "<0x80>", "<0xE4>", "<0xBD>", "<0xA0>", "<0x0A>", "▁"};
  const Json llama{{"type", "Sequence"},
                   {"decoders",
                    {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}},
                     {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const auto of = [](const Json& json) { return Tokenizer::from_json(dump_json(json)); };
  return {{"bytes", of(test::byte_tokenizer({"</s>", "<call>"}, {"<text mark>", "word"}))},
          {"pieces with bytes", of(word_tokenizer(bytes, llama))},
          {"parts of words", of(word_tokenizer({"a", "##b", "c", ".", "'", "s"},
                                               {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}))},
          {"words", of(word_tokenizer({"a", "b", "c"}, nullptr))}};
}

// Bytes are mostly those of a few characters, so that some are whole, some begin and end nowhere.
TokenIds random_ids(const Tokenizer& tokenizer, std::mt19937& random, bool special) {
  const std::vector<int64_t> known = tokenizer.all_special_ids();
  TokenIds ids;
  const auto any = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  for (size_t i = any(30) + 1; i > 0; --i) {
    if (special && any(4) == 0) {
      ids.push_back(known[any(known.size())]);
    } else if (tokenizer.vocab_size() > 256 && any(3) > 0) {
      static const std::string kText = "a é 你 😀\n👍🏽";
      const size_t begin = any(kText.size()), size = any(5);
      for (const unsigned char c : kText.substr(begin, size)) ids.push_back(c);
    } else {
      int64_t id = 0;
      do id = static_cast<int64_t>(any(static_cast<size_t>(tokenizer.vocab_size())));
      while (std::find(known.begin(), known.end(), id) != known.end());
      ids.push_back(id);
    }
  }
  return ids;
}

std::string text_of(const std::vector<TextPiece>& pieces, bool special) {
  std::string text;
  for (const TextPiece& piece : pieces)
    if (special || !piece.special) text += piece.text;
  return text;
}

std::vector<TextPiece> pieces_of(const Tokenizer& tokenizer, const TokenIds& prompt, const TokenIds& ids, bool skip) {
  IncrementalDecoder decoder(tokenizer, prompt, skip);
  std::vector<TextPiece> pieces;
  const auto add = [&](const std::vector<TextPiece>& more) { pieces.insert(pieces.end(), more.begin(), more.end()); };
  for (const int64_t id : ids) add(decoder.add(id));
  add(decoder.finish());
  EXPECT_FALSE(decoder.holds_back());
  return pieces;
}

bool is_whole(const std::string& text) { return text::well_formed(text) == text; }

TEST(IncrementalDecoder, PiecesAreTheText) {
  for (const auto& [name, tokenizer] : kinds()) {
    std::mt19937 random(7);
    for (int trial = 0; trial < 300; ++trial) {
      const TokenIds ids = random_ids(tokenizer, random, false);
      // The prompt ends with a whole character, behind which the text is the rest of the whole.
      const TokenIds prompt{0};
      TokenIds all = prompt;
      all.insert(all.end(), ids.begin(), ids.end());
      const std::string whole = tokenizer.decode(all, true, false), before = tokenizer.decode(prompt, true, false);
      for (const bool skip : {true, false}) {
        const std::vector<TextPiece> pieces = pieces_of(tokenizer, prompt, ids, skip);
        for (const TextPiece& piece : pieces) EXPECT_TRUE(is_whole(piece.text)) << name;
        // Bytes that are no characters may count as more or fewer U+FFFD, as what follows them shows.
        if (whole.find("\xEF\xBF\xBD") == std::string::npos) {
          EXPECT_EQ(before + text_of(pieces, true), whole) << name;
        }
      }
    }
  }
}

TEST(IncrementalDecoder, SpecialTokensArePiecesInTheirPlaces) {
  for (const auto& [name, tokenizer] : kinds()) {
    std::mt19937 random(11);
    const std::vector<int64_t> special = tokenizer.all_special_ids();
    for (int trial = 0; trial < 300; ++trial) {
      const TokenIds ids = random_ids(tokenizer, random, true);
      TokenIds expected;
      for (const int64_t id : ids)
        if (std::find(special.begin(), special.end(), id) != special.end()) expected.push_back(id);
      TokenIds all{0};
      all.insert(all.end(), ids.begin(), ids.end());
      for (const bool skip : {true, false}) {
        const std::vector<TextPiece> pieces = pieces_of(tokenizer, {0}, ids, skip);
        TokenIds found;
        for (const TextPiece& piece : pieces) {
          if (!piece.special) continue;
          found.push_back(*piece.special);
          EXPECT_EQ(piece.text, tokenizer.id_to_token(*piece.special)) << name;
        }
        EXPECT_EQ(found, expected) << name;
        const std::string whole = tokenizer.decode(all, skip, false), before = tokenizer.decode({0}, skip, false);
        if (whole.find("\xEF\xBF\xBD") == std::string::npos &&
            text_of(pieces, true).find("\xEF\xBF\xBD") == std::string::npos) {
          EXPECT_EQ(before + text_of(pieces, !skip), whole) << name;
        }
      }
    }
  }
}

TEST(IncrementalDecoder, ASpecialTokenEndsACharacterThatIsNotWhole) {
  const Tokenizer tokenizer = Tokenizer::from_json(dump_json(test::byte_tokenizer({"</s>"}, {})));
  IncrementalDecoder decoder(tokenizer, {'a'}, true);
  EXPECT_TRUE(decoder.add(0xE4).empty());
  EXPECT_TRUE(decoder.holds_back());
  const std::vector<TextPiece> pieces = decoder.add(256);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].text, "\xEF\xBF\xBD");
  EXPECT_EQ(pieces[1].text, "</s>");
  EXPECT_EQ(pieces[1].special, 256);
  EXPECT_EQ(decoder.add('b')[0].text, "b");
}

}  // namespace
}  // namespace transom
