// SPDX-License-Identifier: Apache-2.0
// Vocabularies that go into GGUF and come back cut texts as before.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "files/gguf/gguf_export.h"
#include "files/gguf/gguf_file.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

Json added(int id, const char* text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// A file of a small T5 or BERT, of which only the vocabulary is read.
std::string written(const test::TemporaryFolder& folder, const Json& tokenizer, const Json& config, int64_t size) {
  GgufWriter writer;
  writer.add_string("general.architecture", "bert");
  writer.add_count("bert.block_count", 1), writer.add_count("bert.context_length", 16);
  writer.add_count("bert.embedding_length", 32), writer.add_count("bert.feed_forward_length", 32);
  writer.add_count("bert.attention.head_count", 2), writer.add_count("bert.pooling_type", 2);
  writer.add_float("bert.attention.layer_norm_epsilon", 1e-12);
  add_gguf_vocabulary(writer, tokenizer, config, size);
  writer.add_tensor("output_norm.weight", 0, {1}, [] { return std::vector<std::byte>(4); });
  const fs::path path = folder / "made.gguf";
  writer.write(path);
  return path.string();
}

std::vector<int64_t> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  const Encoding encoding = tokenizer.encode(text);
  return {encoding.ids.begin(), encoding.ids.end()};
}

Json unigram() {
  return parse_json(R"({"version": "1.0", "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}]},
    "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
      "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
    "added_tokens": [{"id": 0, "content": "<pad>", "special": true}, {"id": 1, "content": "</s>", "special": true},
      {"id": 2, "content": "<unk>", "special": true}, {"id": 9, "content": "<extra_id_0>", "special": true}],
    "model": {"type": "Unigram", "unk_id": 2, "vocab": [["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["\u2581", -2],
      ["\u2581tea", -3.5], ["pot", -4.25], ["t", -5], ["e", -5.5], ["a", -6]]}})",
                    "tokenizer");
}

TEST(GgufVocabulary, OfUnigramsKeepsScoresAndPadding) {
  const test::TemporaryFolder folder;
  const Json config{{"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"unk_token", "<unk>"}};
  const std::string path = written(folder, unigram(), config, 14);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(path);
  EXPECT_EQ(ids_of(tokenizer, "teapot  tea"), (std::vector<int64_t>{4, 5, 4, 1}));
  EXPECT_EQ(ids_of(tokenizer, "ate <extra_id_0>"), (std::vector<int64_t>{3, 8, 6, 7, 9, 1}));
  EXPECT_EQ(ids_of(tokenizer, "z"), (std::vector<int64_t>{3, 2, 1})) << "unknown, not a padding token";
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{4, 5, 9, 1}, true), "teapot");
  EXPECT_EQ(GgufFile::open(path).get_strings("tokenizer.ggml.tokens").size(), 14u);
}

TEST(GgufVocabulary, OfUnigramsRefusesAnotherNormalizer) {
  const test::TemporaryFolder folder;
  Json tokenizer = unigram();
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(test::message_of([&] {
              written(folder, tokenizer, Json::object(), 14);
            }).find("normalizer: 'Lowercase' cannot be written as GGUF"),
            std::string::npos);
}

// BLOOM cuts at spaces and some marks alone, so that "a1" can be one piece; GPT-2 cuts between letters and digits.
TEST(GgufVocabulary, OfBytePairsKeepsTheWayOfCutting) {
  for (const bool bloom : {true, false}) {
    const test::TemporaryFolder folder;
    Json tokenizer = parse_json(R"({"version": "1.0", "normalizer": null, "added_tokens": [], "post_processor": null,
      "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "model": {"type": "BPE", "vocab": {"a": 0, "1": 1, "a1": 2, ".": 3}, "merges": [["a", "1"]]}})",
                                "tokenizer");
    if (bloom)
      tokenizer["pre_tokenizer"] = parse_json(R"({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"}, "behavior": "Isolated",
         "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})",
                                              "pre_tokenizer");
    const std::string path = written(folder, tokenizer, Json::object(), 4);
    EXPECT_EQ(GgufFile::open(path).get_string("tokenizer.ggml.pre"), bloom ? "bloom" : "gpt-2");
    const std::vector<int64_t> expected = bloom ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{0, 1, 3};
    EXPECT_EQ(ids_of(Tokenizer::from_pretrained(path), "a1."), expected);
  }
}

class GgufWordPieces : public testing::TestWithParam<bool> {};

TEST_P(GgufWordPieces, AreCutAsBefore) {
  const bool lower = GetParam();
  const test::TemporaryFolder folder;
  Json vocabulary{{"[PAD]", 0},  {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3},
                  {"[MASK]", 4}, {"the", 5},   {"tea", 6},   {"##pot", 7}};
  if (!lower) vocabulary["The"] = 8;
  const Json tokenizer{
      {"version", "1.0"},
      {"added_tokens",
       {added(0, "[PAD]"), added(1, "[UNK]"), added(2, "[CLS]"), added(3, "[SEP]"), added(4, "[MASK]")}},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", lower}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", vocabulary}}}};
  const Json config{{"cls_token", "[CLS]"},
                    {"sep_token", "[SEP]"},
                    {"pad_token", "[PAD]"},
                    {"unk_token", "[UNK]"},
                    {"mask_token", "[MASK]"}};
  const std::string path = written(folder, tokenizer, config, 11);
  const Tokenizer read = Tokenizer::from_pretrained(path);
  EXPECT_EQ(ids_of(read, "The teapot"), (std::vector<int64_t>{2, lower ? 5 : 8, 6, 7, 3}));
  EXPECT_EQ(ids_of(read, "the [MASK]"), (std::vector<int64_t>{2, 5, 4, 3}));
  const Json pooling = read_json(fs::path(path) / "1_Pooling" / "config.json");
  EXPECT_EQ(pooling["pooling_mode"], "cls");
}
INSTANTIATE_TEST_SUITE_P(Cases, GgufWordPieces, testing::Bool(),
                         [](const auto& info) { return info.param ? "lower_case" : "as_they_are"; });

}  // namespace
}  // namespace transom
