// SPDX-License-Identifier: Apache-2.0
#include "transom/tokenizer.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

using Ids = std::vector<int64_t>;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;

constexpr std::string_view kSmall = R"({
  "added_tokens": [{"id": 0, "content": "[PAD]", "special": true}, {"id": 1, "content": "[UNK]", "special": true},
                   {"id": 2, "content": "[CLS]", "special": true}, {"id": 3, "content": "[SEP]", "special": true},
                   {"id": 4, "content": "[MASK]", "special": true, "lstrip": true}],
  "normalizer": {"type": "BertNormalizer", "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
  "decoder": {"type": "WordPiece"},
  "model": {"type": "WordPiece", "unk_token": "[UNK]",
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "un": 5, "##aff": 6, "##able": 7,
                      "cafe": 8, ",": 9, "a": 10, "b": 11, "c": 12, "d": 13, "e": 14}}
})";

Tokenizer small() { return Tokenizer::from_json(kSmall, R"({"pad_token": "[PAD]", "cls_token": "[CLS]"})"); }

TEST(Tokenizer, CutsWordsIntoTheLongestKnownPieces) {
  const Encoding encoding = small().encode("Unaffable, caf\u00e9 xyz");
  EXPECT_EQ(encoding.ids, (Ids{2, 5, 6, 7, 9, 8, 1, 3}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 0}, {0, 2}, {2, 5}, {5, 9}, {9, 10}, {11, 15}, {16, 19}, {0, 0}}));
  EXPECT_EQ(encoding.word_ids, (Ids{-1, 0, 0, 0, 1, 2, 3, -1}));
  EXPECT_EQ(encoding.special_tokens_mask, (Ids{1, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(Tokenizer, GivesAPairTheSecondType) {
  const Encoding encoding = small().encode("a", "b c");
  EXPECT_EQ(encoding.ids, (Ids{2, 10, 3, 11, 12, 3}));
  EXPECT_EQ(encoding.type_ids, (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(encoding.sequence_ids, (Ids{-1, 0, -1, 1, 1, -1}));
}

TEST(Tokenizer, FindsAddedTokensInTheText) {
  const Encoding encoding = small().encode("a [MASK] b");
  EXPECT_EQ(encoding.ids, (Ids{2, 10, 4, 11, 3}));
  EXPECT_EQ(encoding.offsets[2], (std::pair<int64_t, int64_t>{1, 8}));  // lstrip takes the space before
}

TEST(Tokenizer, SpecialTokensAreTextWhereTheyAreSplit) {
  std::string json(kSmall);
  json.insert(json.find("[{") + 1, R"({"id": 15, "content": "<tag>", "special": false},)");
  const Tokenizer tokenizer = Tokenizer::from_json(json, R"({"pad_token": "[PAD]", "cls_token": "[CLS]"})");
  const EncodeOptions split{.split_special_tokens = true};
  EXPECT_EQ(tokenizer.encode("a [MASK] <tag>b").ids, (Ids{2, 10, 4, 15, 11, 3}));
  // Its brackets and its word are not in the vocabulary; what the post-processor adds stays.
  EXPECT_EQ(tokenizer.encode("a [MASK] <tag>b", std::nullopt, split).ids, (Ids{2, 10, 1, 1, 1, 15, 11, 3}));
}

TEST(Tokenizer, TruncatesTheLongerTextFirst) {
  const EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = 6};
  EXPECT_EQ(small().encode("a b c d", "e", options).ids, (Ids{2, 10, 11, 3, 14, 3}));
  EXPECT_EQ(small().encode("a b c d e a b", std::nullopt, options).ids, (Ids{2, 10, 11, 12, 13, 3}));
}

TEST(Tokenizer, ReturnsWhatIsCutOffInOverlappingWindows) {
  const EncodeOptions options{
      .truncation = Truncation::kLongestFirst, .max_length = 5, .stride = 1, .return_overflowing_tokens = true};
  const Encoding encoding = small().encode("a b c d e", std::nullopt, options);
  EXPECT_EQ(encoding.ids, (Ids{2, 10, 11, 12, 3}));
  ASSERT_EQ(encoding.overflowing.size(), 1u);
  EXPECT_EQ(encoding.overflowing[0].ids, (Ids{2, 12, 13, 14, 3}));
}

TEST(Tokenizer, PadsABatchToItsLongest) {
  const auto batch = small().encode_batch(std::vector<std::string>{"a", "a b c"}, {}, {.padding = Padding::kLongest});
  EXPECT_EQ(batch[0].ids, (Ids{2, 10, 3, 0, 0}));
  EXPECT_EQ(batch[0].attention_mask, (Ids{1, 1, 1, 0, 0}));
  EXPECT_EQ(batch[1].ids.size(), 5u);
}

TEST(Tokenizer, DecodesPiecesToWords) {
  EXPECT_EQ(small().decode({2, 5, 6, 7, 9, 8, 3}), "[CLS] unaffable, cafe [SEP]");
  EXPECT_EQ(small().decode({2, 5, 6, 7, 9, 8, 3}, true), "unaffable, cafe");
}

TEST(Tokenizer, RepairsInvalidUtf8) {
  EXPECT_EQ(small()
                .encode("a\xff\xfe"
                        "b")
                .ids.front(),
            2);
}

TEST(Tokenizer, RefusesUnknownComponentsByName) {
  const std::string message = test::message_of([] {
    Tokenizer::from_json(
        R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}, "normalizer": {"type": "BertNormaliser"}})");
  });
  EXPECT_NE(message.find("the normaliser 'BertNormaliser' is not known; known are BertNormalizer"), std::string::npos)
      << message;
}

TEST(Tokenizer, HostileFilesEndInErrors) {
  std::string nested = R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}, "normalizer": )";
  for (int i = 0; i < 50; ++i) nested += R"({"type": "Sequence", "normalizers": [)";
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{}"), nested,
        std::string(R"({"model": {"vocab": {"a": 999999999999}}})"),
        std::string(R"({"model": {"vocab": {"[UNK]": 0, "b": -1}}})"), std::string(R"({"model": {"vocab": {"a": 0}}})"),
        std::string(R"({"model": {"vocab": {"[UNK]": 0}}, "added_tokens": [{"id": "x"}]})")})
    EXPECT_THROW(Tokenizer::from_json(text), Error) << text.substr(0, 60);
}

TEST(Tokenizer, ReadsVocabularyFilesAlone) {
  const test::TemporaryFolder folder;
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\n");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.string());
  EXPECT_EQ(tokenizer.encode("Hellos").ids, (Ids{2, 5, 6, 3}));
  EXPECT_EQ(tokenizer.pad_token_id(), 0);
}

}  // namespace
}  // namespace transom
