// SPDX-License-Identifier: Apache-2.0
// DLRM made from a configuration: bags, interactions, what it refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string dlrm_config(const std::string& more) {
  return R"({"model_type": "dlrm", "architectures": ["DLRM_Net"], "arch_sparse_feature_size": 2,
    "arch_embedding_size": [5, 4], "arch_mlp_bot": [3, 2], "arch_mlp_top": [4, 1], )" +
         more + R"("loss_function": "bce"})";
}

Tensor category_ids(std::vector<int64_t> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Tensor::from(values, {size});
}

NamedTensors click_batch(std::vector<int64_t> first, std::vector<int64_t> offsets) {
  return {{"dense_x", Tensor::from(std::vector<float>{1, 2, 3, 3, 2, 1}, {2, 3})},
          {"lS_i.0", category_ids(std::move(first))},
          {"lS_i.1", category_ids({0, 3})},
          {"lS_o", Tensor::from(offsets, {2, 2})},
          {"labels", Tensor::from(std::vector<float>{1, 0}, {2, 1})}};
}

std::vector<float> probabilities(const Model& model, const NamedTensors& inputs) {
  return model.forward(inputs).at("probabilities").to_vector<float>();
}

TEST(Dlrm, ABagIsASum) {
  const auto model = Model::from_config(dlrm_config(""));
  const auto one = probabilities(*model, click_batch({1, 2, 4}, {0, 2, 0, 1}));
  EXPECT_EQ(one, probabilities(*model, click_batch({2, 1, 4}, {0, 2, 0, 1})));  // in any order
  EXPECT_NE(one, probabilities(*model, click_batch({1, 2, 4}, {0, 1, 0, 1})));  // but not in another bag
}

// The second bag is empty: its row is that of a table of zeros, and no gradient reaches the table from there.
TEST(Dlrm, AnEmptyBagIsZero) {
  const auto model = Model::from_config(dlrm_config(""));
  const NamedTensors inputs = click_batch({1, 2}, {0, 2, 0, 1});
  const auto with_empty = probabilities(*model, inputs);
  for (const auto& parameter : model->parameters()) {
    if (parameter->name != "emb_l.0.weight") continue;
    const auto gradient = gradients(model->forward(inputs).at("loss"), {parameter->value})[0].to_vector<float>();
    for (const size_t row : {0u, 3u, 4u}) EXPECT_EQ(gradient[row * 2], 0);
    parameter->value = zeros({5, 2});
  }
  EXPECT_EQ(probabilities(*model, click_batch({1, 2, 4}, {0, 2, 0, 1}))[1], with_empty[1]);
}

TEST(Dlrm, TheTopFollowsFromTheInteraction) {
  const auto width = [](const std::string& more) {
    const auto model = Model::from_config(dlrm_config(more));
    for (const auto& parameter : model->parameters())
      if (parameter->name == "top_l.0.weight") return parameter->value.dim(1);
    return int64_t{0};
  };
  EXPECT_EQ(width(""), 2 + 3);
  EXPECT_EQ(width(R"("arch_interaction_itself": true, )"), 2 + 6);
  EXPECT_EQ(width(R"("arch_interaction_op": "cat", )"), 6);
}

// Clicks count three times as much, and rows without one half.
TEST(Dlrm, WbceWeighsRowsByTheirLabels) {
  std::string weighted = dlrm_config(R"("loss_weights": "0.5-3", )");
  weighted.replace(weighted.find("\"bce\""), 5, "\"wbce\"");
  const NamedTensors inputs = click_batch({1, 2}, {0, 1, 0, 1});
  const auto model = Model::from_config(weighted);
  const auto p = probabilities(*model, inputs);
  const double expected = (-3 * std::log(static_cast<double>(p[0])) - 0.5 * std::log1p(-static_cast<double>(p[1]))) / 2;
  EXPECT_NEAR(model->forward(inputs).at("loss").item<float>(), expected, 1e-5 * expected);
  for (const char* wrong : {"1", "1-", "-1", "1-2-3", "a-b", ""})
    EXPECT_THROW(Model::from_config(dlrm_config(R"("loss_weights": ")" + std::string(wrong) + R"(", )")), Error)
        << wrong;
}

// Where a probability is 1 to the last bit, its logarithms are not, and the gradient is none, as PyTorch's BCELoss has
// it.
TEST(Dlrm, ASaturatedProbabilityHasAFiniteLossAndGradient) {
  const auto model = Model::from_config(dlrm_config(""));
  std::vector<Tensor> weights;
  for (const auto& parameter : model->parameters()) {
    if (parameter->name == "top_l.2.bias") parameter->value = full({1}, 200);
    parameter->value.set_requires_grad();
    weights.push_back(parameter->value);
  }
  const NamedTensors outputs = model->forward(click_batch({1, 2}, {0, 1, 0, 1}));
  EXPECT_EQ(outputs.at("probabilities").to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(outputs.at("loss").item<float>(), 50);  // 0 for the click, 100 for none
  for (const Tensor& gradient : gradients(outputs.at("loss"), weights))
    for (const float value : gradient.to_vector<float>()) EXPECT_EQ(value, 0);
}

TEST(Dlrm, RefusesWhatItDoesNotCarryOut) {
  EXPECT_THROW(Model::from_config(dlrm_config(R"("weighted_pooling": "fixed", )")), Error);
  EXPECT_THROW(Model::from_config(dlrm_config(R"("md_flag": true, )")), Error);
  EXPECT_THROW(Model::from_config(dlrm_config(R"("arch_interaction_op": "sum", )")), Error);
  EXPECT_THROW(Model::from_config(dlrm_config(R"("arch_mlp_bot": [3, 5], )")), Error);
  const auto model = Model::from_config(dlrm_config(""));
  NamedTensors inputs = click_batch({1, 2}, {0, 1, 0, 1});
  inputs.set("lS_o", category_ids({0, 1}));
  EXPECT_THROW(model->forward(inputs), Error);
}

}  // namespace
}  // namespace transom
