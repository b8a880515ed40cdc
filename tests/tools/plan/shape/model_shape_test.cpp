// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/model_shape.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/plan/jobs.h"
#include "tools/plan/work.h"

namespace transom {
namespace {

TEST(ModelShape, CountsLlamasParameters) {
  const ModelShape a = model_shape_of(test::kLlama, "x", 0);
  // 6.738e9 with norms, which are not counted.
  EXPECT_NEAR(a.parameters, 6.738e9, 0.002e9);
}

TEST(ModelShape, ForwardFlopsAreTwoAParameterAndToken) {
  const ModelShape a = model_shape_of(test::kLlama, "x", 0);
  const Work work = layers_forward(a, 3, 100, 0, true);
  EXPECT_NEAR(work.weight_flops, 2 * 300 * a.layer_parameters(), 1e6);
  // Two products of B H T S d each, of which a causal mask leaves half: 2 x 2 x tokens x (T / 2) x 4096 a layer.
  EXPECT_NEAR(work.attention_flops, 32 * 4.0 * 300 * 50 * 4096, 1e3);
}

TEST(ModelShape, OfExpertsOnlyThoseThatAreTouchedAreRead) {
  const ModelShape a = model_shape_of(
      R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, 
          "num_local_experts": 8,
          "num_experts_per_tok": 2, "intermediate_size": 128, "vocab_size": 100})",
      "x", 0);
  const double one = weights_touched(a, 1, false), all = weights_touched(a, 1, true);
  EXPECT_NEAR(all - one, 2 * 6 * 3 * 64 * 128, 1);
  EXPECT_NEAR(weights_touched(a, 1e6, false), all, 1);
}

TEST(ModelShape, WindowsKeepTheirSizeOfTheCache) {
  const std::string config =
      R"({"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100, "sliding_window": 16})";
  const ModelShape a = model_shape_of(config, "x", 0);
  EXPECT_EQ(cache_elements(a, 16), 2 * 2 * 2 * 16 * 16);
  EXPECT_EQ(cache_elements(a, 1000), cache_elements(a, 16));
}

TEST(ModelShape, ImpossibleFieldsAreNamed) {
  const auto error = [](const std::string& config) {
    try {
      model_shape_of(config, "x", 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error(R"({"num_hidden_layers": 2, "hidden_size": 65, "num_attention_heads": 4})")
                .find("config.num_attention_heads"),
            std::string::npos);
  EXPECT_NE(error(R"({"num_hidden_layers": -2, "hidden_size": 64})").find("config.num_hidden_layers"),
            std::string::npos);
  EXPECT_NE(error(R"({"num_hidden_layers": "two", "hidden_size": 64})").find("config.num_hidden_layers"),
            std::string::npos);
  EXPECT_NE(error(R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 8})")
                .find("config.num_key_value_heads"),
            std::string::npos);
  EXPECT_NE(error("").find("model"), std::string::npos);
}

TEST(ModelShape, NamesOfTheTableAreFoundInTheirVariants) {
  EXPECT_EQ(model_shape_of("", "bert-large-uncased", 0).layers(), 24);
  EXPECT_EQ(model_shape_of("", "meta-llama/Llama-2-7b-hf", 0).decoder().hidden, 4096);
  EXPECT_TRUE(model_shape_of("", "resnet-50", 0).is_convolutional());
  // What nobody knows is planned by its size.
  const ModelShape unknown = model_shape_of("", "no such model", 7e9);
  EXPECT_NEAR(unknown.layer_parameters(), 7e9, 2e9);
}

}  // namespace
}  // namespace transom
