// SPDX-License-Identifier: Apache-2.0
#include "models/compression/layer_bits.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "files/config/config.h"
#include "models/compression/quantize.h"
#include "support/message.h"
#include "support/word_models.h"
#include "transom/gradients.h"

namespace transom {
namespace {

std::vector<LayerSensitivity> layers() {
  return {{.name = "a", .weights = 100, .loss_of_4 = 0.1, .loss_of_8 = 0.01},
          {.name = "b", .weights = 100, .loss_of_4 = 0.4, .loss_of_8 = 0.01},
          {.name = "wide", .weights = 800, .loss_of_4 = 0.9, .loss_of_8 = 0.01}};
}

TEST(LayerBits, GoWhereABitGainsMost) {
  using Bits = std::map<std::string, int>;
  EXPECT_EQ(chosen_bits(layers(), 4), (Bits{{"a", 4}, {"b", 4}, {"wide", 4}}));
  EXPECT_EQ(chosen_bits(layers(), 4.4), (Bits{{"a", 4}, {"b", 8}, {"wide", 4}}));
  EXPECT_EQ(chosen_bits(layers(), 4.8), (Bits{{"a", 8}, {"b", 8}, {"wide", 4}})) << "the wide one does not fit";
  EXPECT_EQ(chosen_bits(layers(), 7.6), (Bits{{"a", 4}, {"b", 8}, {"wide", 8}})) << "it gains more than a";
  EXPECT_EQ(chosen_bits(layers(), 8), (Bits{{"a", 8}, {"b", 8}, {"wide", 8}}));
}

TEST(LayerBits, BelowFourAreRefused) {
  EXPECT_NE(test::message_of([] { chosen_bits(layers(), 3.5); }).find("--target_bits: expected at least 4.000"),
            std::string::npos);
}

constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 12,
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "max_position_embeddings": 64, "initializer_range": 0.2})";

std::vector<float> logits_of(const std::string& model) {
  const NoGradient inference;
  const std::vector<int64_t> ids{1, 5, 2, 9, 0, 3, 3, 8};
  const auto loaded = Model::from_pretrained(model);
  return loaded->forward({{"input_ids", Tensor::from(ids, {1, 8})}}).at("logits").to_vector<float>();
}

double mean_distance(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) error += (x[i] - y[i]) * (x[i] - y[i]);
  return error;
}

// Between 4 and 8 bits in size and in error, read back as it is written.
TEST(LayerBits, MixtureIsBetweenItsParts) {
  for (const char* method : {"rtn", "gptq"}) {
    const test::TemporaryFolder folder;
    test::save_word_model(folder, kLlama);
    std::string text;
    for (int i = 0; i < 900; ++i) text += "w" + std::to_string(i * i % 11) + " ";
    write_file(folder / "text.txt", text);
    const auto made = [&](int64_t bits, const std::string& name) {
      return quantize_model(folder.string(), (folder / name).string(),
                            {.method = method,
                             .bits = bits,
                             .target_bits = 6,
                             .group_size = 32,
                             .calibration_file = (folder / "text.txt").string(),
                             .calibration_length = 32});
    };
    const QuantizeReport four = made(4, "four"), mixed = made(kBitsByLayer, "mixed"), eight = made(8, "eight");
    ASSERT_EQ(mixed.layers.size(), 14u);
    double bits = 0;
    for (const auto& layer : mixed.layers) {
      EXPECT_TRUE(layer.bits == 4 || layer.bits == 8) << layer.name;
      bits += layer.bits;
    }
    EXPECT_GT(bits, 4 * 14) << "some have 8";
    EXPECT_LT(bits, 8 * 14) << "some have 4";
    ASSERT_TRUE(mixed.mean_bits);
    EXPECT_LE(*mixed.mean_bits, 6);
    EXPECT_GT(*mixed.mean_bits, 4.5);
    const std::vector<float> exact = logits_of(folder.string());
    const double error = mean_distance(logits_of((folder / "mixed").string()), exact);
    EXPECT_LT(error, mean_distance(logits_of((folder / "four").string()), exact)) << method;
    EXPECT_GT(error, mean_distance(logits_of((folder / "eight").string()), exact)) << method;
    const Json config = read_json(folder / "mixed" / "config.json");
    const Json& groups = config["quantization_config"]["config_groups"];
    EXPECT_EQ(groups["group_0"]["weights"]["num_bits"], 4);
    EXPECT_EQ(groups["group_1"]["weights"]["num_bits"], 8);
    EXPECT_EQ(groups["group_0"]["targets"].size() + groups["group_1"]["targets"].size(), 14u);
  }
}

}  // namespace
}  // namespace transom
