// SPDX-License-Identifier: Apache-2.0
// Where tokenizers of many languages put the token of a language, by their class and options.
#include "inputs/text/language_tokens.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

using Ids = std::vector<int64_t>;

constexpr const char* kTokenizer = R"({
  "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
  "added_tokens": [
    {"id": 2, "content": "</s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false,
     "single_word": false},
    {"id": 7, "content": "eng_Latn", "special": true, "normalized": false, "lstrip": false, "rstrip": false,
     "single_word": false},
    {"id": 8, "content": "fra_Latn", "special": true, "normalized": false, "lstrip": false, "rstrip": false,
     "single_word": false}],
  "post_processor": null, "decoder": null,
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false, "dropout": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "▁": 4, "a": 5, "▁a": 6}, "merges": [["▁", "a"]]}
})";

Tokenizer of_class(const std::string& fields) {
  return Tokenizer::from_json(kTokenizer,
                              R"({"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", )" + fields + "}");
}

TEST(LanguageTokens, StandBeforeTheTextsOfNllb) {
  const Tokenizer tokenizer = of_class(R"("tokenizer_class": "NllbTokenizer")");
  EXPECT_EQ(tokenizer.encode("a a").ids, (Ids{7, 6, 6, 2}));
  EXPECT_EQ(of_class(R"("tokenizer_class": "NllbTokenizer", "src_lang": "fra_Latn")").encode("a").ids, (Ids{8, 6, 2}));
}

TEST(LanguageTokens, StandBehindTheTextsOfOlderModels) {
  const Tokenizer tokenizer = of_class(R"("tokenizer_class": "NllbTokenizer", "legacy_behaviour": true)");
  EXPECT_EQ(tokenizer.encode("a").ids, (Ids{6, 2, 7}));
  EXPECT_EQ(of_class(R"("tokenizer_class": "MBartTokenizer", "src_lang": "fra_Latn")").encode("a").ids, (Ids{6, 2, 8}));
}

TEST(LanguageTokens, AreChangedByName) {
  for (const char* fields :
       {R"("tokenizer_class": "NllbTokenizer")", R"("tokenizer_class": "NllbTokenizer", "legacy_behaviour": true)"}) {
    const Tokenizer tokenizer = of_class(fields);
    const auto languages = LanguageTokens::of(tokenizer);
    ASSERT_TRUE(languages.has_value());
    Encoding text = tokenizer.encode("a");
    languages->put(text, languages->id_of("fra_Latn", "src_lang"));
    const bool before = text.ids[0] == 8;
    EXPECT_EQ(text.ids, before ? (Ids{8, 6, 2}) : (Ids{6, 2, 8}));
    EXPECT_THROW(languages->id_of("▁a", "src_lang"), Error);  // a word is no language
    EXPECT_THROW(languages->id_of("deu_Latn", "src_lang"), Error);
  }
}

TEST(LanguageTokens, OtherTokenizersKnowNone) {
  EXPECT_FALSE(LanguageTokens::of(of_class(R"("tokenizer_class": "TokenizersBackend")")).has_value());
  EXPECT_FALSE(LanguageTokens::of(of_class(R"("tokenizer_class": "PegasusTokenizer")")).has_value());
  EXPECT_EQ(of_class(R"("tokenizer_class": "PegasusTokenizer")").encode("a").ids, (Ids{6, 2}));
}

TEST(LanguageTokens, OneThatIsMissingIsNamed) {
  try {
    of_class(R"("tokenizer_class": "NllbTokenizer", "src_lang": "deu_Latn")");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("deu_Latn"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace transom
