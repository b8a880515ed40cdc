// SPDX-License-Identifier: Apache-2.0
// Which experts a token goes through where probabilities are equal or no numbers, and that others notice nothing.
#include "models/shared/mixtures/mixture_of_experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/message.h"
#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {
namespace {

constexpr const char* kModel = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
  "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
  "head_dim": 6, "intermediate_size": 16, "moe_intermediate_size": 10, "num_experts": 4, "num_experts_per_tok": 2,
  "norm_topk_prob": true, "max_position_embeddings": 32, "initializer_range": 0.4})";

Parameter& parameter_of(const Model& model, const std::string& name) {
  for (const auto& parameter : model.parameters())
    if (parameter->name == name) return *parameter;
  throw std::out_of_range(name);
}

std::vector<float> logits_for_tokens(const Model& model) {
  const NoGradient inference;
  return model.forward({{"input_ids", Tensor::from(std::vector<int64_t>{3, 9, 27, 1, 14}, {1, 5})}})
      .at("logits")
      .to_vector<float>();
}

// The weight of an expert times two.
std::vector<float> logits_with_other(int64_t expert) {
  const auto model = Model::from_config(kModel, {.seed = 3});
  Parameter& router = parameter_of(*model, "model.layers.0.mlp.gate.weight");
  router.value = zeros(router.value.shape());
  if (expert >= 0) {
    Parameter& down =
        parameter_of(*model, "model.layers.0.mlp.experts." + std::to_string(expert) + ".down_proj.weight");
    down.value = down.value * 2.0;
  }
  return logits_for_tokens(*model);
}

TEST(Router, OfEquallyLikelyExpertsTakesTheFirst) {
  const std::vector<float> usual = logits_with_other(-1);
  for (const int64_t chosen : {0, 1}) EXPECT_NE(logits_with_other(chosen), usual) << chosen;
  for (const int64_t other : {2, 3}) EXPECT_EQ(logits_with_other(other), usual) << other;
}

TEST(Router, WithoutNumbersStaysInItsRow) {
  const auto model = Model::from_config(kModel, {.seed = 3});
  const NoGradient inference;
  std::vector<float> numbers;
  for (int i = 0; i < 3 * 12; ++i) numbers.push_back(std::sin(static_cast<float>(i)));
  const std::vector<float> whole =
      model->forward({{"inputs_embeds", Tensor::from(numbers, {3, 1, 12})}}).at("logits").to_vector<float>();
  numbers[14] = std::numeric_limits<float>::quiet_NaN();  // of the second of three texts
  const std::vector<float> found =
      model->forward({{"inputs_embeds", Tensor::from(numbers, {3, 1, 12})}}).at("logits").to_vector<float>();
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_second = i / 31 == 1;
    if (is_second) EXPECT_TRUE(std::isnan(found[i])) << i;
    else EXPECT_EQ(found[i], whole[i]) << i;
  }
}

TEST(Router, CountsThatCannotBeAreRefused) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string config = kModel;
    config.replace(config.find(from), from.size(), to);
    return test::message_of([&] { Model::from_config(config); });
  };
  EXPECT_EQ(refusal("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5"),
            "config.json: 5 experts for each token (num_experts_per_tok) of 4 (num_experts) cannot be");
  EXPECT_NE(refusal("\"norm_topk_prob\": true", "\"decoder_sparse_step\": 0").find("decoder_sparse_step: expected"),
            std::string::npos);
}

// Not to be told from a model without experts.
TEST(MixtureOfExperts, OfNoExpertsIsAFeedForwardLayer) {
  std::string config = kModel;
  config.replace(config.find("\"num_experts\": 4"), 16, "\"num_experts\": 0");
  const auto model = Model::from_config(config);
  EXPECT_NO_THROW(parameter_of(*model, "model.layers.0.mlp.gate_proj.weight"));
}

}  // namespace
}  // namespace transom
