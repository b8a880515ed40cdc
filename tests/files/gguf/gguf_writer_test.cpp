// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/json/json.h"
#include "files/gguf/gguf_export.h"
#include "files/gguf/gguf_model.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::message_of;

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * 4);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

TEST(GgufWriter, WritesWhatTheReaderReads) {
  const test::TemporaryFolder folder;
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_count("llama.block_count", 2);
  writer.add_float("llama.rope.freq_base", 1e4);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_strings("tokenizer.ggml.tokens", {"a", "", "bc"});
  writer.add_floats("tokenizer.ggml.scores", {0, -1, 2.5f});
  writer.add_ints("tokenizer.ggml.token_type", {1, 3, -7});
  writer.add_tensor("x", 0, {2, 3}, [] { return bytes_of({1, 2, 3, 4, 5, 6}); });
  writer.add_tensor("y", 8, {1, 32}, [] { return std::vector<std::byte>(34, std::byte{1}); });
  writer.add_tensor("z", 0, {1}, [] { return bytes_of({7}); });
  int64_t told = 0;
  const fs::path path = folder / "a.gguf";
  writer.write(path, [&](int64_t done, int64_t total, const std::string&) { told = 10 * done + total; });
  EXPECT_EQ(told, 33);
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.get_int("llama.block_count"), 2);
  EXPECT_EQ(file.get_float("llama.rope.freq_base"), 1e4);
  EXPECT_TRUE(file.get_bool("tokenizer.ggml.add_bos_token", false));
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "", "bc"}));
  EXPECT_EQ(file.get_floats("tokenizer.ggml.scores"), (std::vector<double>{0, -1, 2.5}));
  EXPECT_EQ(file.get_ints("tokenizer.ggml.token_type"), (std::vector<int64_t>{1, 3, -7}));
  EXPECT_EQ(file.find("x")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.find("x")->bytes.data(), bytes_of({1, 2, 3, 4, 5, 6}).data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.find("z")->bytes.data(), bytes_of({7}).data(), 4), 0) << "behind a tensor of 34 bytes";
}

TEST(GgufVocabulary, OfABrokenTokenizerIsRefused) {
  for (const char* text :
       {"[]", R"({"model": 3})", R"({"model": {"type": "BPE"}})", R"({"model": {"type": "BPE", "vocab": {}}})",
        R"({"model": {"type": "BPE", "vocab": [], "merges": []}})",
        R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": {}}})"}) {
    GgufWriter writer;
    const Json tokenizer = parse_json(text, "tokenizer.json");
    EXPECT_TRUE(
        message_of([&] { add_gguf_vocabulary(writer, tokenizer, Json::object(), 1); }).starts_with("tokenizer.json: "))
        << text;
  }
  GgufWriter writer;  // parts that are no objects, and a Split without a pattern, have no name
  const Json odd = parse_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
      "decoder": {"type": "ByteLevel"},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [3, {"type": "Split"}, {"type": "Split", "pattern": 1}]}})",
                              "tokenizer.json");
  EXPECT_EQ(message_of([&] { add_gguf_vocabulary(writer, odd, Json::object(), 1); }),
            "tokenizer.json: pre_tokenizer: llama.cpp has no name for this way of cutting text");
}

TEST(GgufWriter, LeavesNoHalfOfAFile) {
  const test::TemporaryFolder folder;
  GgufWriter writer;
  writer.add_tensor("x", 0, {1}, [] { return bytes_of({1}); });
  writer.add_tensor("y", 0, {1}, [] { return bytes_of({1, 2}); });
  EXPECT_NE(message_of([&] { writer.write(folder / "a.gguf"); }).find("y: expected 4 bytes, found 8"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "a.gguf"));
}

TEST(GgufWriter, ConfigurationsComeBack) {
  const test::TemporaryFolder folder;
  const Json config =
      Json::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 5,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 128}, "rope_theta": 500000.0})");
  GgufWriter writer;
  add_gguf_config(writer, config);
  writer.write(folder / "a.gguf");
  const Json found = gguf_config(GgufFile::open(folder / "a.gguf"));
  for (const char* field :
       {"model_type", "hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps"})
    EXPECT_EQ(found[field], config[field]) << field;
  EXPECT_EQ(found["rope_parameters"]["rope_type"], "llama3");
  EXPECT_EQ(found["rope_parameters"]["factor"], 8.0);
  EXPECT_EQ(found["rope_parameters"]["original_max_position_embeddings"], 128);
  EXPECT_EQ(found["rope_parameters"]["rope_theta"], 500000.0);
  GgufWriter other;
  EXPECT_NE(message_of([&] {
              add_gguf_config(other, {{"model_type", "dlrm"}});
            }).find("these can: "),
            std::string::npos);
}

Json config_from(const std::function<void(GgufWriter&)>& add, const Json& rotary) {
  const test::TemporaryFolder folder;
  Json config = Json::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 5,
    "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 512})");
  config["rope_parameters"] = rotary;
  GgufWriter writer;
  add_gguf_config(writer, config);
  add(writer);
  writer.write(folder / "a.gguf");
  return gguf_config(GgufFile::open(folder / "a.gguf"))["rope_parameters"];
}

TEST(GgufWriter, FactorsOfYarnComeBack) {
  Json yarn{{"rope_type", "yarn"}, {"factor", 4.0},    {"original_max_position_embeddings", 128},
            {"beta_fast", 16.0},   {"beta_slow", 2.0}, {"rope_theta", 10000.0}};
  EXPECT_EQ(config_from([](GgufWriter&) {}, yarn), yarn);
  yarn["attention_factor"] = 1.5;
  const Json found = config_from([](GgufWriter&) {}, yarn);
  EXPECT_NEAR(found["attention_factor"].get<double>(), 1.5, 1e-6);
  EXPECT_EQ(found["beta_fast"], 16.0);
  yarn["truncate"] = false;
  EXPECT_NE(message_of([&] { config_from([](GgufWriter&) {}, yarn); }).find("truncate false"), std::string::npos);
}

// As llama.cpp takes keys that stand alone.
TEST(GgufWriter, KeysOfScalingMayStandAlone) {
  const Json plain{{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const Json linear{{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 10000.0}};
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"})
    EXPECT_EQ(config_from([&](GgufWriter& writer) { writer.add_float(key, 4); }, plain), linear) << key;
  EXPECT_NE(message_of([&] {
              config_from([](GgufWriter& writer) { writer.add_float("llama.rope.scaling.attn_factor", 2); }, plain);
            }).find("rope.scaling.attn_factor: expected 1 for this scaling, found 2"),
            std::string::npos);
}

// Factors of each pair in a tensor and one for all divide frequencies both, as in llama.cpp; what one scaling cannot
// say is refused, not left out.
TEST(GgufWriter, FactorsInATensorAndOneForAllAreBothTaken) {
  const Json plain{{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const auto add_factors = [](GgufWriter& writer, const char* name) {
    writer.add_tensor(name, 0, {8}, [] { return bytes_of({1, 2, 3, 4, 5, 6, 7, 8}); });
  };
  const auto with = [&](std::initializer_list<const char*> tensors, const char* kind, double factor) {
    return config_from(
        [&](GgufWriter& writer) {
          if (*kind) writer.add_string("llama.rope.scaling.type", kind);
          if (factor >= 0) writer.add_float("llama.rope.scaling.factor", factor);
          for (const char* name : tensors) add_factors(writer, name);
        },
        plain);
  };
  const std::vector<double> ones{1, 2, 3, 4, 5, 6, 7, 8}, fours{4, 8, 12, 16, 20, 24, 28, 32};
  EXPECT_EQ(with({"rope_freqs.weight"}, "", -1)["long_factor"], ones);
  EXPECT_EQ(with({"rope_freqs.weight"}, "none", 4)["long_factor"], ones);
  for (const char* kind : {"", "linear", "longrope"})
    EXPECT_EQ(with({"rope_freqs.weight"}, kind, 4)["long_factor"], fours) << kind;
  EXPECT_EQ(with({}, "linear", 0)["factor"], 1.0);
  const char *short_factors = "rope_factors_short.weight", *long_factors = "rope_factors_long.weight";
  EXPECT_EQ(with({short_factors, long_factors}, "longrope", 1)["short_factor"], ones);
  for (const auto& refused : {std::function([&] { with({"rope_freqs.weight"}, "yarn", 4); }), std::function([&] {
                                with({short_factors, long_factors}, "linear", 4);
                              }),
                              std::function([&] {
                                with({short_factors, long_factors}, "longrope", 4);
                              })})
    EXPECT_NE(message_of(refused).find("scale positions; one can"), std::string::npos) << message_of(refused);
  EXPECT_NE(message_of([&] { with({long_factors}, "longrope", 1); }).find("found one of them"), std::string::npos);
}

// Of SentencePiece's BPE the scores are in the order of the merges; ids that the tokenizer lacks are filled.
TEST(GgufWriter, VocabulariesComeBack) {
  const test::TemporaryFolder folder;
  const Json tokenizer = Json::parse(R"({"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
    "vocab": {"<unk>": 0, "<s>": 1, "<0x41>": 2, "a": 3, "b": 4, "ab": 5, "aba": 6},
    "merges": [["ab", "a"], "a b"]}, "added_tokens": [{"id": 1, "content": "<s>", "special": true}],
    "normalizer": {"type": "Prepend", "prepend": "\u2581"}, "decoder": {"type": "Fuse"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}})");
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  add_gguf_vocabulary(writer, tokenizer, {{"bos_token", "<s>"}}, 9);
  writer.write(folder / "a.gguf");
  const GgufFile file = GgufFile::open(folder / "a.gguf");
  const std::vector<std::string>& tokens = file.get_strings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 9u);
  EXPECT_EQ(tokens[6], "aba");
  EXPECT_EQ(file.get_ints("tokenizer.ggml.token_type"), (std::vector<int64_t>{1, 3, 6, 1, 1, 1, 1, 5, 5}));
  const std::vector<double> scores = file.get_floats("tokenizer.ggml.scores");
  EXPECT_GT(scores[6], scores[5]) << "what is joined first";
  EXPECT_GT(scores[5], scores[3]);
  EXPECT_TRUE(file.get_bool("tokenizer.ggml.add_bos_token", false));
  EXPECT_TRUE(file.get_bool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(file.get_int("tokenizer.ggml.bos_token_id"), 1);
}

}  // namespace
}  // namespace transom
