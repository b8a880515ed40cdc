// SPDX-License-Identifier: Apache-2.0
// added_tokens.json beside tokenizer.json or vocab.txt. Ids are those of Transformers 5.24's AutoTokenizer for the same
// directories.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

constexpr const char* kText = "w1 <x> w2<y>w3 <x>w4 <z><e> <q>w3w3";

// Words w0 to w11, of which the last stands for what is unknown. `own`: added tokens of tokenizer.json.
Tokenizer tokenizer_with(const std::string& added, const std::string& config, const Json& own = Json::array()) {
  const test::TemporaryFolder folder;
  Json vocabulary = Json::object();
  for (int i = 0; i < 12; ++i) vocabulary["w" + std::to_string(i)] = i;
  const Json tokenizer{{"version", "1.0"},
                       {"added_tokens", own},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                       {"post_processor", nullptr},
                       {"decoder", nullptr},
                       {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w11"}}}};
  folder.write("tokenizer.json", dump_json(tokenizer));
  folder.write("added_tokens.json", added);
  Json settings = parse_json(config, "config");
  settings["tokenizer_class"] = "PreTrainedTokenizerFast";
  folder.write("tokenizer_config.json", dump_json(settings));
  return Tokenizer::from_pretrained(folder.string());
}

Json special_token(const char* content, int64_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

TEST(OlderAddedTokens, AreReadAsTransformersReadsThem) {
  struct Case {
    const char* added;
    const char* config;
    Json own;
    std::vector<int64_t> ids;
  };
  const char* decoder = R"({"added_tokens_decoder": {"12": {"content": "<z>", "special": true, "lstrip": false,
      "rstrip": false, "normalized": false, "single_word": false}}})";
  const Json none = Json::array();
  const Case cases[] = {
      {R"({"<x>": 12, "<y>": 13})", "{}", none, {1, 12, 2, 13, 3, 12, 4, 11, 11}},
      {R"({"<y>": 13, "<x>": 12})", "{}", none, {1, 12, 2, 13, 3, 12, 4, 11, 11}},
      {R"({"<x>": 15, "<y>": 12})", "{}", none, {1, 13, 2, 12, 3, 13, 4, 11, 11}},  // what the file says is an order
      {R"({"<x>": 20})", "{}", none, {1, 12, 11, 12, 4, 11, 11}},
      {R"({"<x>": 12, "<y>": 13})", R"({"pad_token": "<x>"})", none, {1, 12, 2, 13, 3, 12, 4, 11, 11}},
      {R"({"<x>": 12})", R"({"eos_token": "<x>"})", none, {1, 12, 11, 12, 4, 11, 11}},
      {R"({"<x>": 12})", R"({"additional_special_tokens": ["<x>", "<e>"]})", none, {1, 12, 11, 12, 4, 11, 13, 11}},
      {R"({"<x>": 12})", decoder, none, {1, 11, 11, 11, 12, 11, 11}},  // the decoder counts alone
      {R"({"<x>": 12})", "{}", {special_token("<x>", 12)}, {1, 12, 11, 12, 4, 11, 11}},
      {R"({"<x>": 20})", "{}", {special_token("<x>", 12)}, {1, 12, 11, 12, 4, 11, 11}},
      {R"({"<x>": 12})", "{}", {special_token("<q>", 12)}, {1, 11, 11, 11, 11, 12, 11}},
      {R"({"w3": 3})", "{}", none, {1, 11, 11, 3, 11, 11, 11, 3, 3}},
      {R"({"w3": 14})", "{}", none, {1, 11, 11, 3, 11, 11, 11, 3, 3}},
      {"{}", "{}", none, {1, 11, 11, 11, 11, 11}}};
  for (const Case& each : cases)
    EXPECT_EQ(tokenizer_with(each.added, each.config, each.own).encode(kText).ids, each.ids)
        << each.added << " " << each.config;
}

TEST(OlderAddedTokens, BesideVocabTxtAreReadAsTransformersReadsThem) {
  const test::TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nblank\n");
  const auto tokenizer = [&](const char* added, const char* config) {
    folder.write("added_tokens.json", added);
    folder.write("tokenizer_config.json", config);
    return Tokenizer::from_pretrained(folder.string());
  };
  using Ids = std::vector<int64_t>;
  const char *both = R"({"<x>": 7, "<y>": 8})", *named = R"({"additional_special_tokens": ["<y>", "<x>"]})";
  EXPECT_EQ(tokenizer(both, "{}").encode("a blank <x> <y>").ids, (Ids{2, 5, 6, 7, 8, 3}));
  EXPECT_EQ(tokenizer(both, named).encode("a blank <x> <y>").ids, (Ids{2, 5, 6, 7, 8, 3}));
  const Ids ids{2, 5, 6, 7, 8, 3};
  EXPECT_EQ(tokenizer(both, "{}").decode(ids, true), "a blank <x> <y>");
  EXPECT_EQ(tokenizer(both, named).decode(ids, true), "a blank");
  EXPECT_EQ(tokenizer(R"({"<y>": 7})", R"({"pad_token": "<y>"})").encode("a blank <y>").ids, (Ids{2, 5, 6, 7, 3}));
}

TEST(OlderAddedTokens, ThatAreNamedAreSpecial) {
  const std::vector<int64_t> ids = {1, 12, 2, 13};
  EXPECT_EQ(tokenizer_with(R"({"<x>": 12, "<y>": 13})", R"({"pad_token": "<x>"})").decode(ids, true), "w1 w2 <y>");
}

TEST(OlderAddedTokens, MayBeAnything) {
  for (const char* added : {R"({"<x>": "12"})", R"({"<x>": -1})", R"({"<x>": 1e30})", "[]", R"({"<x>": null})",
                            R"({"<x>": 9223372036854775807})"})
    EXPECT_THROW(tokenizer_with(added, "{}"), Error) << added;
}

}  // namespace
}  // namespace transom
