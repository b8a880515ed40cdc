// SPDX-License-Identifier: Apache-2.0
#include "transom/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "inputs/text/tokenize_lines.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

namespace fs = std::filesystem;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;
using Texts = std::vector<std::string>;

class TokenizerTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Tokenizer load() const { return Tokenizer::from_pretrained(folder_.string()); }
  // A tokenizer.json with one component besides a WordLevel model.
  Tokenizer load_with(const std::string& fields, const std::string& vocabulary) const {
    write("tokenizer.json", R"({"version": "1.0", )" + fields +
                                R"(, "model": {"type": "WordLevel", "unk_token": "?", "vocab": )" + vocabulary + "}}");
    return load();
  }
  std::string error_of(const std::string& json) const {
    write("tokenizer.json", json);
    return test::message_of([&] { load(); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerTest, VocabularyFileIsABertTokenizer) {
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n,\ncafe\n好\n");
  const Tokenizer tokenizer = load();
  const Encoding encoding = tokenizer.encode("Unaffable, CAFÉ好 [MASK]xyz");
  EXPECT_EQ(encoding.tokens, (Texts{"[CLS]", "un", "##aff", "##able", ",", "cafe", "好", "[MASK]", "[UNK]", "[SEP]"}));
  EXPECT_EQ(encoding.offsets,
            (Offsets{{0, 0}, {0, 2}, {2, 5}, {5, 9}, {9, 10}, {11, 15}, {15, 16}, {17, 23}, {23, 26}, {0, 0}}));
  EXPECT_EQ(encoding.word_ids, (std::vector<int64_t>{-1, 0, 0, 0, 1, 2, 3, 4, 5, -1}));
  EXPECT_EQ(encoding.special_tokens_mask, (std::vector<int64_t>{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(tokenizer.decode(encoding.ids, true), "unaffable, cafe 好");
  EXPECT_EQ(tokenizer.mask_token_id(), 4);
  EXPECT_EQ(tokenizer.bos_token_id(), std::nullopt);
  EXPECT_EQ(tokenizer.vocab_size(), 11);
  EXPECT_EQ(tokenizer.id_to_token(9), "cafe");

  write("tokenizer_config.json", R"({"do_lower_case": false, "padding_side": "left", "model_max_length": 4})");
  const Tokenizer cased = load();
  EXPECT_EQ(cased.encode("Un un").tokens, (Texts{"[CLS]", "[UNK]", "un", "[SEP]"}));
  EncodeOptions options;
  options.padding = Padding::kMaxLength, options.truncation = Truncation::kLongestFirst;
  EXPECT_EQ(cased.encode("un", {}, options).ids, (std::vector<int64_t>{0, 2, 5, 3}));
  EXPECT_EQ(cased.encode("un un un", {}, options).ids, (std::vector<int64_t>{2, 5, 5, 3}));
}

TEST_F(TokenizerTest, PairsTruncationAndOverflow) {
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\n");
  const Tokenizer tokenizer = load();
  const Encoding pair = tokenizer.encode("a b", "c");
  EXPECT_EQ(pair.type_ids, (std::vector<int64_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(pair.sequence_ids, (std::vector<int64_t>{-1, 0, 0, -1, 1, -1}));
  EXPECT_EQ(tokenizer.encode("a b", "").size(), 4u);
  EncodeOptions options;
  options.truncation = Truncation::kOnlyFirst, options.max_length = 5, options.stride = 1;
  options.return_overflowing_tokens = true;
  const Encoding cut = tokenizer.encode("a b c d e", {}, options);
  EXPECT_EQ(cut.tokens, (Texts{"[CLS]", "a", "b", "c", "[SEP]"}));
  ASSERT_EQ(cut.overflowing.size(), 1u);
  EXPECT_EQ(cut.overflowing[0].tokens, (Texts{"[CLS]", "c", "d", "e", "[SEP]"}));
  options.truncation_side = Side::kLeft;
  EXPECT_EQ(tokenizer.encode("a b c d e", {}, options).tokens, (Texts{"[CLS]", "c", "d", "e", "[SEP]"}));
  options.truncation = Truncation::kOnlySecond;
  EXPECT_THROW(tokenizer.encode("a b c d e", "a", options), Error);
  EXPECT_THROW(tokenizer.encode("a b c d e", {}, options), Error);
  options.truncation = Truncation::kLongestFirst, options.stride = 3;
  EXPECT_THROW(tokenizer.encode("a b c d e", {}, options), Error);
  std::string long_text;
  for (int i = 0; i < 20000; ++i) long_text += "a ";
  options.stride = 2;
  EXPECT_THROW(tokenizer.encode(long_text, {}, options), Error);  // a window for each token
  options.return_overflowing_tokens = false;
  EXPECT_EQ(tokenizer.encode(long_text, {}, options).size(), 5u);
}

TEST_F(TokenizerTest, IllFormedTextBecomesReplacementCharacters) {
  const Tokenizer tokenizer =
      load_with(R"("pre_tokenizer": {"type": "WhitespaceSplit"})", R"({"?": 0, "a\ufffdb": 1, "c": 2})");
  const Encoding encoding = tokenizer.encode(
      "a\xFF"
      "b c");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 3}, {4, 5}}));
}

TEST_F(TokenizerTest, NormalizersKeepTheAlignment) {
  const Tokenizer tokenizer = load_with(
      R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
         {"type": "Replace", "pattern": {"String": "ss"}, "content": "z"}, {"type": "Strip"}]},
         "pre_tokenizer": {"type": "Whitespace"})",
      R"({"?": 0, "ecole": 1, "fi": 2, "maze": 3, "!": 4})");
  const Encoding encoding = tokenizer.encode("  École ﬁ masse!");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(encoding.offsets, (Offsets{{2, 7}, {8, 9}, {10, 15}, {15, 16}}));
}

// What random texts found: the tables of the tokenizers library are those of older versions of Unicode.
TEST_F(TokenizerTest, YoungCharactersHaveNoProperties) {
  const std::string words = R"("pre_tokenizer": {"type": "BertPreTokenizer"})", vocabulary = R"({"?": 0})";
  EXPECT_EQ(load_with(words, vocabulary).encode("a\u09FDb\u2E47c").size(), 1u);  // punctuation since Unicode 10
  EXPECT_EQ(load_with(words, vocabulary).encode("a\u166Db").size(), 3u);         // punctuation until Unicode 12
  const std::string bert = R"("normalizer": {"type": "BertNormalizer"}, )" + words;
  EXPECT_EQ(load_with(bert, vocabulary).encode("\u08DAab").offsets, (Offsets{{0, 3}}));  // a mark since Unicode 9
  EXPECT_EQ(load_with(bert, vocabulary).encode("\u1886ab").offsets, (Offsets{{0, 3}}));  // a letter until Unicode 9
  const std::string form = R"("normalizer": {"type": "NFKC"})";
  EXPECT_EQ(load_with(form, "{\"?\": 0, \"\u32FF\": 1}").encode("\u32FF").ids[0], 1);  // decomposed since Unicode 12
  const std::string lower = R"("normalizer": {"type": "Lowercase"})";
  EXPECT_EQ(load_with(lower, "{\"?\": 0, \"\u1C8A\": 1}").encode("\u1C89").ids[0], 1);  // a letter since Unicode 16
}

TEST_F(TokenizerTest, PatternsMeanWhatOnigurumaTakesThemFor) {
  const auto pieces = [&](const std::string& pattern, const std::string& text) {
    return load_with(R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": ")" + pattern +
                         R"("}})",
                     R"({"?": 0})")
        .encode(text)
        .offsets;
  };
  EXPECT_EQ(pieces(R"(\\s+)", "a\u180Eb c"), (Offsets{{0, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(pieces(R"([\\s]+)", "a\u180Eb"), (Offsets{{0, 3}}));
  EXPECT_EQ(pieces(R"(\\h+)", "xfaz"), (Offsets{{0, 1}, {1, 3}, {3, 4}}));
  EXPECT_EQ(pieces(R"([[:punct:]])", "a€b"), (Offsets{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(pieces(R"(\\p{Han}+)", "好\u3001x"), (Offsets{{0, 1}, {1, 3}}));
  EXPECT_EQ(pieces(R"((?=[A-Z]))", "aBcD"), (Offsets{{0, 1}, {1, 3}, {3, 4}}));
  EXPECT_EQ(pieces(R"(\\d{1,3}+)", "12345678"), (Offsets{{0, 8}}));
  EXPECT_EQ(pieces(R"((?m:a.b))", "a\nb"), (Offsets{{0, 3}}));
  EXPECT_EQ(pieces(R"(\\b)", "ab cd"), (Offsets{{0, 2}, {2, 3}, {3, 5}}));
  EXPECT_THROW(pieces("[a-w&&[^c-g]z]", "b"), Error);
  EXPECT_EQ(pieces(R"(\\v)", "a\rb"), (Offsets{{0, 3}}));
  EXPECT_EQ(pieces(R"(\\u0062)", "abc"), (Offsets{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(pieces(R"(^b)", "a\nb"), (Offsets{{0, 2}, {2, 3}}));
}

// Which of these characters a class holds, as the tokenizers library finds: letters, a digit, a connector, spaces,
// numbers that are no digits, marks, a number that is a letter, signs.
TEST_F(TokenizerTest, ClassesHoldWhatOnigurumaPutsInThem) {
  const std::vector<std::string> characters = {"a",      "Z",      "5",      "_",      " ",      "\t",
                                               "\u00B2", "\u00BD", "\u093F", "\u0301", "\u09F4", "\u2160",
                                               "\u00AA", "\u203F", "\u20AC", "-",      "\u0966"};
  const std::pair<std::string, std::string> classes[] = {
      {R"(\\w)", "11110011110111001"},           {R"(\\W)", "00001100001000110"},
      {R"([\\w-])", "11110000110111011"},        {R"([^\\w\\s])", "00000011001000110"},
      {R"([\\W_])", "00011111001000110"},        {R"([[:word:]])", "11110000110111001"},
      {R"([[:^word:]])", "00001111001000110"},   {R"([[:alpha:]])", "11000000100110000"},
      {R"([[:alnum:]])", "11100000100110001"},   {R"([[:upper:]])", "01000000000100000"},
      {R"([[:lower:]])", "10000000000010000"},   {R"([[:punct:]])", "00010000000001110"},
      {R"([[:^punct:]])", "11101111111110001"},  {R"([[:digit:]])", "00100000000000001"},
      {R"([[:blank:]])", "00001100000000000"},   {R"([[:xdigit:]])", "10100000000000000"},
      {R"(\\h)", "10100000000000000"},           {R"(\\H)", "01011111111111111"},
      {R"([\\H])", "01011111111111111"},         {R"(\\p{Alnum})", "11100000100110001"},
      {R"(\\P{Alnum})", "00011111011001110"},    {R"(\\p{^Word})", "00001100001000110"},
      {R"([\\p{Punct}_])", "00010000000001010"}, {R"([\\S])", "11110011111111111"},
  };
  for (const auto& [name, expected] : classes) {
    const Tokenizer tokenizer = load_with(
        R"("pre_tokenizer": {"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex": ")" + name +
            R"("}})",
        R"({"?": 0})");
    std::string found;
    for (const std::string& character : characters) found += std::to_string(tokenizer.encode(character).size());
    EXPECT_EQ(found, expected) << name;
  }
}

TEST_F(TokenizerTest, InvertedSplitsAreThoseOfWhatLiesBetween) {
  const struct {
    std::string behavior, pattern;
    Offsets pieces;
  } cases[] = {
      {"Removed", R"([A-Z])", {{2, 3}, {3, 4}, {7, 8}}},
      {"Removed", R"(\\b)", {}},
      {"Isolated", R"([A-Z])", {{0, 2}, {2, 3}, {3, 4}, {4, 7}, {7, 8}}},
      {"Isolated", R"(\\b)", {{0, 5}, {5, 6}, {6, 8}}},
      {"MergedWithPrevious", R"([A-Z])", {{0, 2}, {2, 3}, {3, 7}, {7, 8}}},
      {"MergedWithPrevious", R"(\\b)", {{0, 5}, {5, 6}, {6, 8}}},
      {"MergedWithNext", R"([A-Z])", {{0, 3}, {3, 4}, {4, 8}}},
      {"MergedWithNext", R"(\\b)", {{0, 5}, {5, 6}, {6, 8}}},
      {"Contiguous", R"([A-Z])", {{0, 2}, {2, 4}, {4, 7}, {7, 8}}},
      {"Contiguous", R"(\\b)", {{0, 5}, {5, 6}, {6, 8}}},
  };
  for (const auto& [behavior, pattern, pieces] : cases) {
    const Tokenizer tokenizer = load_with(R"("pre_tokenizer": {"type": "Split", "behavior": ")" + behavior +
                                              R"(", "invert": true, "pattern": {"Regex": ")" + pattern + R"("}})",
                                          R"({"?": 0})");
    EXPECT_EQ(tokenizer.encode("abCDe fG").offsets, pieces) << behavior << " " << pattern;
  }
}

TEST_F(TokenizerTest, TwoFramesOfSpecialTokensAreRefused) {
  const std::string frame = R"({"type": "BertProcessing", "sep": ["?", 0], "cls": ["?", 0]})";
  EXPECT_THROW(load_with(R"("post_processor": {"type": "Sequence", "processors": [)" + frame + ", " + frame + "]}",
                         R"({"?": 0})"),
               Error);
}

TEST_F(TokenizerTest, AddedTokens) {
  const Tokenizer tokenizer = load_with(
      R"("added_tokens": [{"id": 3, "content": "<m>", "lstrip": true, "rstrip": true, "special": true, "normalized": false},
                          {"id": 4, "content": "<mm>", "special": true},
                          {"id": 5, "content": "Word", "single_word": true, "normalized": true}],
         "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"})",
      R"({"?": 0, "a": 1, "b": 2, "words": 6})");
  const Encoding encoding = tokenizer.encode("a  <m> b<mm>WORD words");
  EXPECT_EQ(encoding.tokens, (Texts{"a", "<m>", "b", "<mm>", "word", "words"}));  // as it was looked for
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {1, 7}, {7, 8}, {8, 12}, {12, 16}, {17, 22}}));
  EXPECT_EQ(tokenizer.decode(encoding.ids, true), "a b word words");
  EXPECT_EQ(tokenizer.token_to_id("Word"), 5);
  EXPECT_EQ(tokenizer.token_to_id("word"), std::nullopt);
  EXPECT_EQ(tokenizer.all_special_ids(), (std::vector<int64_t>{3, 4}));
}

// The spaces that one token takes are looked at again; what tokenizers gives for the same file.
TEST_F(TokenizerTest, AnAddedTokenMayBeginInTheSpacesOfTheOneBefore) {
  const Tokenizer tokenizer = load_with(
      R"("added_tokens": [{"id": 3, "content": "<m>", "rstrip": true, "normalized": false},
                          {"id": 4, "content": " a", "lstrip": true, "normalized": false},
                          {"id": 5, "content": " b", "normalized": false}])",
      R"({"?": 0, "a": 1, "b": 2})");
  const Encoding encoding = tokenizer.encode("<m>  a<m>  b");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{3, 4, 3, 5}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 5}, {5, 6}, {6, 11}, {10, 12}}));
}

// What tokenizers 0.23 gives for the same file.
TEST_F(TokenizerTest, ASpecialTokenThatIsNormalisedToAnotherTextIsDecoded) {
  const Tokenizer tokenizer = load_with(
      R"("added_tokens": [{"id": 3, "content": "<M>", "special": true, "normalized": true},
                          {"id": 4, "content": "<N>", "special": true, "normalized": false}],
         "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"})",
      R"({"?": 0, "a": 1, "b": 2})");
  const Encoding encoding = tokenizer.encode("a<M>b<N>");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{1, 3, 2, 4}));
  EXPECT_EQ(tokenizer.decode(encoding.ids, true), "a <m> b");
  EXPECT_EQ(tokenizer.decode(encoding.ids, false), "a <m> b <N>");
  EXPECT_EQ(tokenizer.all_special_ids(), (std::vector<int64_t>{3, 4}));
}

TEST_F(TokenizerTest, BytePairsJoinTheEarliestMergeFirst) {
  write("tokenizer.json",
        R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["b c", ["a", "b"], "bc bc"], "vocab": {"a": 0, "b": 1, "c": 2, "bc": 3, "ab": 4, "bcbc": 5,
    "Ã": 6, "©": 7, "Ġ": 8}}})");
  const Tokenizer tokenizer = load();
  const Encoding encoding = tokenizer.encode("abcbcab é");
  EXPECT_EQ(encoding.tokens, (Texts{"a", "bcbc", "ab", "Ġ", "Ã", "©"}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {1, 5}, {5, 7}, {7, 8}, {8, 9}, {8, 9}}));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "abcbcab é");
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{6}), "\uFFFD");
}

TEST_F(TokenizerTest, UnigramTakesTheMostProbablePath) {
  write("tokenizer.json",
        R"({"pre_tokenizer": {"type": "Metaspace"}, "decoder": {"type": "Metaspace"}, "model": {"type": "Unigram",
    "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["a", -2], ["b", -2], ["ab", -5], ["▁a", -3], ["▁ab", -6]]}})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.encode("ab xy").tokens, (Texts{"▁a", "b", "▁", "<unk>"}));
  EXPECT_EQ(tokenizer.encode("ab xy").offsets, (Offsets{{0, 1}, {1, 2}, {2, 3}, {3, 5}}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab ab").ids), "ab ab");
}

TEST_F(TokenizerTest, LinesAndSaving) {
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\né\n");
  write("tokenizer_config.json", R"({"strip_accents": false})");
  const fs::path copy = folder_ / "copy";
  load().save_pretrained(copy.string());
  EXPECT_EQ(
      tokenize_line(Tokenizer::from_pretrained(copy.string()), R"({"text": "É", "text_pair": ""})", "line"),
      R"({"ids": [1, 3, 2], "type_ids": [0, 0, 0], "attention_mask": [1, 1, 1], "offsets": [[0, 0], [0, 1], [0, 0]], )"
      R"("tokens": ["[CLS]", "\u00e9", "[SEP]"], "decoded": "[CLS] \u00e9 [SEP]", "decoded_skip_special": "\u00e9"})");
  EXPECT_THROW(tokenize_line(load(), R"({"text": 3})", "line"), Error);
}

TEST_F(TokenizerTest, HostileFiles) {
  EXPECT_THROW(load(), Error);
  const std::string model = R"("model": {"type": "WordLevel", "vocab": {"?": 0}})";
  EXPECT_NE(error_of(R"({"normalizer": {"type": "Shout"}, )" + model + "}").find("'Shout'"), std::string::npos);
  EXPECT_NE(error_of(R"({"pre_tokenizer": {"type": "Shout"}, )" + model + "}").find("'Shout'"), std::string::npos);
  EXPECT_NE(error_of(R"({"post_processor": {"type": "Shout"}, )" + model + "}").find("'Shout'"), std::string::npos);
  EXPECT_NE(error_of(R"({"decoder": {"type": "Shout"}, )" + model + "}").find("'Shout'"), std::string::npos);
  EXPECT_NE(error_of(R"({"model": {"type": "Shout"}})").find("'Shout'"), std::string::npos);
  for (
      const char* json : {
          "",
          "{",
          "[]",
          "{}",
          "null",
          R"({"model": 3})",
          R"({"model": {"type": "WordLevel", "vocab": 3}})",
          R"({"model": {"type": "WordLevel", "vocab": {"a": -1}}})",
          R"({"model": {"type": "WordLevel", "vocab": {"a": 1e3}}})",
          R"({"model": {"type": "WordLevel", "vocab": {"a": 99999999999}}})",
          R"({"model": {"type": "WordPiece", "vocab": {}}})",
          R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}})",
          R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}})",
          R"({"model": {"type": "Unigram", "vocab": []}})",
          R"({"model": {"type": "Unigram", "unk_id": 7, "vocab": [["a", 0]]}})",
          R"({"added_tokens": [{"content": "a"}], "model": {"type": "WordLevel", "vocab": {"a": 0}}})",
          R"({"added_tokens": 3, "model": {"type": "WordLevel", "vocab": {"a": 0}}})",
          R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "model": {"type": "WordLevel", "vocab": {}}})",
          R"({"normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}, "model": {"type": "WordLevel"}})",
      }) {
    EXPECT_NE(error_of(json), "") << json;
  }
  // Components that multiply a text, and a pattern whose matching would take for ever.
  std::string doubling, levels;
  for (int i = 0; i < 64; ++i) {
    doubling += std::string(i > 0 ? "," : "") + R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
    levels += std::string(i > 0 ? "," : "") + R"({"type": "ByteLevel", "use_regex": false})";
  }
  const std::string slow = R"({"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""})";
  write("tokenizer.json", R"({"normalizer": {"type": "Sequence", "normalizers": [)" + doubling + "]}, " + model + "}");
  EXPECT_THROW(load().encode("a"), Error);
  write("tokenizer.json",
        R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" + levels + "]}, " + model + "}");
  EXPECT_THROW(load().encode("é"), Error);
  write("tokenizer.json", R"({"normalizer": )" + slow + ", " + model + "}");
  EXPECT_THROW(load().encode(std::string(60, 'a') + "b"), Error);
  std::string deep = R"({"type": "Lowercase"})";
  for (int i = 0; i < 100; ++i) deep = R"({"type": "Sequence", "normalizers": [)" + deep + "]}";
  EXPECT_NE(error_of(R"({"normalizer": )" + deep + ", " + model + "}"), "");
}

TEST_F(TokenizerTest, RareComponents) {
  const auto pieces = [&](const std::string& component, const std::string& text) {
    const Tokenizer tokenizer = load_with(R"("pre_tokenizer": )" + component, R"({"?": 0})");
    Offsets found;
    for (const auto& offset : tokenizer.encode(text).offsets) found.push_back(offset);
    return found;
  };
  EXPECT_EQ(pieces(R"({"type": "CharDelimiterSplit", "delimiter": "|"})", "a||b c|"), (Offsets{{0, 1}, {3, 6}}));
  EXPECT_EQ(pieces(R"({"type": "FixedLength", "length": 2})", "abécd"), (Offsets{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(pieces(R"({"type": "UnicodeScripts"})", "  abc дом アあ漢"), (Offsets{{2, 6}, {6, 10}, {10, 13}}));
  EXPECT_EQ(load_with(R"("normalizer": {"type": "ByteLevel"})", R"({"?": 0, "aĠÃ©": 1})").encode("a é").ids,
            (std::vector<int64_t>{1}));
  const Tokenizer ctc = load_with(R"("decoder": {"type": "CTC"})", R"({"?": 0, "<pad>": 1, "h": 2, "i": 3, "|": 4})");
  EXPECT_EQ(ctc.decode({1, 2, 2, 1, 3, 3, 4, 2}), "hi h");
}

}  // namespace
}  // namespace transom
