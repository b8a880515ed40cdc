// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/slow_tokenizers/tokenizer_class_options.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "transom/error.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

using Texts = std::vector<std::string>;

// A tokenizer.json of BERT that keeps case.
constexpr std::string_view kCased = R"({"normalizer": {"type": "BertNormalizer", "lowercase": false},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "É": 1, "é": 2, "e": 3, "E": 4, "好": 5, "好e": 6}}})";

TEST(ClassOptions, OfBertOverruleTheNormaliser) {
  const auto tokens = [](std::string_view config) {
    return Tokenizer::from_json(kCased, config).encode("É 好e", {}, {.add_special_tokens = false}).tokens;
  };
  EXPECT_EQ(tokens(""), (Texts{"É", "好", "e"}));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "PreTrainedTokenizerFast"})"), (Texts{"É", "好", "e"}));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "BertTokenizer"})"), (Texts{"e", "好", "e"}));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "ElectraTokenizerFast", "strip_accents": false})"), (Texts{"é", "好", "e"}));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})"), (Texts{"É", "好", "e"}));
  EXPECT_EQ(tokens(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false, "strip_accents": true,
      "tokenize_chinese_chars": false})"),
            (Texts{"E", "好e"}));
  EXPECT_THROW(tokens(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": "no"})"), Error);
}

// Transformers makes LlamaTokenizer of vocabulary and merges: its options decide where words get their mark.
TEST(ClassOptions, OfLlamaSayWhereWordsGetTheirMark) {
  constexpr std::string_view kMetaspace = R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
      "split": false})";
  constexpr std::string_view kPrepend =
      R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})";
  for (const bool metaspace : {true, false}) {
    const std::string tokenizer =
        R"({"normalizer": )" + std::string(metaspace ? "null" : kPrepend) + R"(, "pre_tokenizer": )" +
        std::string(metaspace ? kMetaspace : "null") +
        R"(, "added_tokens": [{"id": 3, "content": "<s>", "special": true, "normalized": false}],
        "model": {"type": "BPE", "merges": ["\u2581 a"], "vocab": {"a": 0, "\u2581": 1, "\u2581a": 2, "<s>": 3}}})";
    const auto tokens = [&](std::string_view config) {
      return Tokenizer::from_json(tokenizer, config).encode("a<s>a", {}, {.add_special_tokens = false}).tokens;
    };
    const Texts first{"▁a", "<s>", "a"}, always{"▁a", "<s>", "▁a"}, never{"a", "<s>", "a"};
    EXPECT_EQ(tokens(R"({"tokenizer_class": "LlamaTokenizer"})"), first) << metaspace;
    EXPECT_EQ(tokens(R"({"tokenizer_class": "LlamaTokenizerFast", "legacy": false})"), first) << metaspace;
    EXPECT_EQ(tokens(R"({"tokenizer_class": "LlamaTokenizer", "legacy": true})"), always) << metaspace;
    EXPECT_EQ(tokens(R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false})"), never) << metaspace;
    EXPECT_EQ(tokens(R"({"tokenizer_class": "PreTrainedTokenizerFast", "legacy": true})"), metaspace ? first : always);
  }
}

TEST(ClassOptions, ThatAreNotCarriedOutAreRefused) {
  const auto said = [](const char* config) {
    try {
      Tokenizer::from_json(kCased, config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(said(R"({"split_special_tokens": true})").find("split_special_tokens = 'true' is not carried out"),
            std::string::npos);
  EXPECT_EQ(said(R"({"split_special_tokens": false, "add_bos_token": true, "errors": "replace"})"), "");
}

// chat_template.json is a file of processors: a tokenizer alone takes what its own files say, as in Transformers.
TEST(ClassOptions, TheTemplateOfProcessorsCountsWhereThereIsOne) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}})");
  folder.write("chat_template.json", R"({"chat_template": "of processors"})");
  const auto found = [&] { return Tokenizer::from_pretrained(folder.string()).chat_template(); };
  EXPECT_EQ(found(), "of processors");
  folder.write("tokenizer_config.json", R"({"chat_template": "of the configuration"})");
  EXPECT_EQ(found(), "of the configuration");
  folder.write("chat_template.jinja", "of its file");
  EXPECT_EQ(found(), "of its file");
  for (const char* processor : {"preprocessor_config.json", "processor_config.json"}) {
    folder.write(processor, "{}");
    EXPECT_EQ(found(), "of processors");
    std::filesystem::remove(folder / processor);
  }
}

TEST(ClassOptions, AddPrefixSpace) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "model": {"type": "BPE", "merges": ["Ġ a"], "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}}})");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  const std::string path = folder.path().string(), copy = (folder.path() / "copy").string();
  const Texts words = {"a", "a"};
  EXPECT_EQ(Tokenizer::from_pretrained(path).encode_words(words).tokens, (Texts{"a", "a"}));
  const Tokenizer spaced = Tokenizer::from_pretrained(path, {.add_prefix_space = true});
  const Encoding encoding = spaced.encode_words(words);
  EXPECT_EQ(encoding.tokens, (Texts{"Ġa", "Ġa"}));
  EXPECT_EQ(encoding.word_ids, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(spaced.encode("a a").tokens, (Texts{"Ġa", "Ġa"}));
  spaced.save_pretrained(copy);
  EXPECT_EQ(Tokenizer::from_pretrained(copy).encode_words(words).tokens, (Texts{"Ġa", "Ġa"}));
}

TEST(ClassOptions, VocabularyFileOfMpnet) {
  const test::TemporaryFolder folder;
  folder.write("vocab.txt", "<s>\n<pad>\n</s>\n[UNK]\na\nb\n<mask>\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path().string());
  EXPECT_EQ(tokenizer.encode("A <mask>", "b").ids, (std::vector<int64_t>{0, 4, 6, 2, 2, 5, 2}));
  EXPECT_EQ(tokenizer.encode("A <mask>").offsets[2], (std::pair<int64_t, int64_t>{2, 8}));
  EXPECT_EQ(tokenizer.bos_token_id(), 0);
}

// Without a tokenizer_config.json, the model's type names the class, and that what the model is given.
TEST(ClassOptions, AFolderWithoutAClassHasThatOfItsModel) {
  using Names = std::vector<std::string>;
  const auto made = [](const std::string& type, const std::string& file, const std::string& text) {
    const test::TemporaryFolder folder;
    folder.write("config.json", "{\"model_type\": \"" + type + "\"}");
    folder.write(file, text);
    return Tokenizer::from_pretrained(folder.path().string());
  };
  const Names without = {"input_ids", "attention_mask"}, with = {"input_ids", "token_type_ids", "attention_mask"};
  // As microsoft/mpnet-base has it: with BERT's special tokens among the others.
  const Tokenizer mpnet =
      made("mpnet", "vocab.txt", "<s>\n<pad>\n</s>\n[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\na\nb\n<mask>\n");
  EXPECT_EQ(mpnet.model_input_names(), without);
  EXPECT_EQ(mpnet.encode("A <mask>", "b").ids, (std::vector<int64_t>{0, 8, 10, 2, 2, 9, 2}));
  EXPECT_EQ(mpnet.pad_token_id(), 1);
  const std::string bert = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n";
  EXPECT_EQ(made("bert", "vocab.txt", bert).model_input_names(), with);
  EXPECT_EQ(made("electra", "vocab.txt", bert).model_input_names(), with);
  const std::string words = R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}})";
  EXPECT_EQ(made("deberta-v2", "tokenizer.json", words).model_input_names(), with);
  for (const char* type : {"roberta", "gpt2", "bloom", "llama", "opt", "albert", "modernbert"})
    EXPECT_EQ(made(type, "tokenizer.json", words).model_input_names(), without) << type;
  EXPECT_EQ(made("gemma2", "tokenizer.json", words).padding_side(), Side::kLeft);
  EXPECT_EQ(made("llama", "tokenizer.json", words).padding_side(), Side::kRight);
}

TEST(ClassOptions, SpecialTokensMap) {
  const test::TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nblank\n");
  folder.write("special_tokens_map.json",
               R"({"mask_token": {"content": "blank"}, "cls_token": "[SEP]", "additional_special_tokens": ["<x>"]})");
  const std::string path = folder.path().string();
  const Encoding encoding = Tokenizer::from_pretrained(path).encode("a blank <x>");
  EXPECT_EQ(encoding.ids, (std::vector<int64_t>{3, 5, 6, 7, 3}));
  EXPECT_EQ(Tokenizer::from_pretrained(path).mask_token_id(), 6);
  // It is read last; where tokenizer_config.json has the tokens with their ids, that counts alone.
  folder.write("tokenizer_config.json", R"({"mask_token": "[MASK]"})");
  EXPECT_EQ(Tokenizer::from_pretrained(path).mask_token_id(), 6);
  EXPECT_EQ(Tokenizer::from_pretrained(path).encode("a blank <x>").ids, encoding.ids);
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<x>", "special": true,
    "lstrip": false, "rstrip": false, "normalized": false, "single_word": false}}})");
  EXPECT_EQ(Tokenizer::from_pretrained(path).mask_token_id(), 4);
  EXPECT_EQ(Tokenizer::from_pretrained(path).encode("a blank <x>").ids, (std::vector<int64_t>{2, 5, 6, 7, 3}));
}

TEST(Tokenizer, SavesFilesOfOtherImplementationsToo) {
  const test::TemporaryFolder folder;
  const auto copy = folder.path() / "copy";
  folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
  folder.write("merges.txt", "a b\n");
  folder.write("model.bin", "not a tokenizer's");
  Tokenizer::from_pretrained(folder.path().string()).save_pretrained(copy.string());
  EXPECT_TRUE(std::filesystem::exists(copy / "vocab.txt"));
  EXPECT_TRUE(std::filesystem::exists(copy / "merges.txt"));
  EXPECT_FALSE(std::filesystem::exists(copy / "model.bin"));
}

}  // namespace
}  // namespace transom
