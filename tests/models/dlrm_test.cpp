// SPDX-License-Identifier: Apache-2.0
// DLRM made from a configuration: bags, interactions, what it refuses.
#include <gtest/gtest.h>

#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string config(const std::string& more) {
  return R"({"model_type": "dlrm", "architectures": ["DLRM_Net"], "arch_sparse_feature_size": 2,
    "arch_embedding_size": [5, 4], "arch_mlp_bot": [3, 2], "arch_mlp_top": [4, 1], )" +
         more + R"("loss_function": "bce"})";
}

Tensor ids(std::vector<int64_t> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Tensor::from(values, {size});
}

NamedTensors batch(std::vector<int64_t> first, std::vector<int64_t> offsets) {
  return {{"dense_x", Tensor::from(std::vector<float>{1, 2, 3, 3, 2, 1}, {2, 3})},
          {"lS_i.0", ids(std::move(first))},
          {"lS_i.1", ids({0, 3})},
          {"lS_o", Tensor::from(offsets, {2, 2})},
          {"labels", Tensor::from(std::vector<float>{1, 0}, {2, 1})}};
}

std::vector<float> probabilities(const Model& model, const NamedTensors& inputs) {
  return model.forward(inputs).at("probabilities").to_vector<float>();
}

TEST(Dlrm, ABagIsASum) {
  const auto model = Model::from_config(config(""));
  const auto one = probabilities(*model, batch({1, 2, 4}, {0, 2, 0, 1}));
  EXPECT_EQ(one, probabilities(*model, batch({2, 1, 4}, {0, 2, 0, 1})));  // in any order
  EXPECT_NE(one, probabilities(*model, batch({1, 2, 4}, {0, 1, 0, 1})));  // but not in another bag
}

// The second bag is empty: its row is that of a table of zeros, and no gradient reaches the table from there.
TEST(Dlrm, AnEmptyBagIsZero) {
  const auto model = Model::from_config(config(""));
  const NamedTensors inputs = batch({1, 2}, {0, 2, 0, 1});
  const auto with_empty = probabilities(*model, inputs);
  for (const auto& parameter : model->parameters()) {
    if (parameter->name != "emb_l.0.weight") continue;
    const auto gradient = gradients(model->forward(inputs).at("loss"), {parameter->value})[0].to_vector<float>();
    for (const size_t row : {0u, 3u, 4u}) EXPECT_EQ(gradient[row * 2], 0);
    parameter->value = zeros({5, 2});
  }
  EXPECT_EQ(probabilities(*model, batch({1, 2, 4}, {0, 2, 0, 1}))[1], with_empty[1]);
}

TEST(Dlrm, TheTopFollowsFromTheInteraction) {
  const auto width = [](const std::string& more) {
    const auto model = Model::from_config(config(more));
    for (const auto& parameter : model->parameters())
      if (parameter->name == "top_l.0.weight") return parameter->value.dim(1);
    return int64_t{0};
  };
  EXPECT_EQ(width(""), 2 + 3);
  EXPECT_EQ(width(R"("arch_interaction_itself": true, )"), 2 + 6);
  EXPECT_EQ(width(R"("arch_interaction_op": "cat", )"), 6);
}

// A probability of 1 in float32, once where there was a click and once where there was none.
TEST(Dlrm, CertaintyHasAFiniteGradient) {
  const auto model = Model::from_config(config(""));
  for (const auto& parameter : model->parameters())
    if (parameter->name == "top_l.2.bias") {
      parameter->value = Tensor::from(std::vector<float>{200}, {1});
      parameter->value.set_requires_grad();
    }
  const Tensor loss = model->forward(batch({1, 2}, {0, 1, 0, 1})).at("loss");
  EXPECT_EQ(loss.item<float>(), 50);
  std::vector<Tensor> weights;
  for (const auto& parameter : model->parameters()) weights.push_back(parameter->value);
  for (const Tensor& gradient : gradients(loss, weights))
    for (const float value : gradient.to_vector<float>()) EXPECT_EQ(value, 0);
}

TEST(Dlrm, RefusesWhatItDoesNotCarryOut) {
  EXPECT_THROW(Model::from_config(config(R"("weighted_pooling": "fixed", )")), Error);
  EXPECT_THROW(Model::from_config(config(R"("md_flag": true, )")), Error);
  EXPECT_THROW(Model::from_config(config(R"("arch_interaction_op": "sum", )")), Error);
  EXPECT_THROW(Model::from_config(config(R"("arch_mlp_bot": [3, 5], )")), Error);
  const auto model = Model::from_config(config(""));
  NamedTensors inputs = batch({1, 2}, {0, 1, 0, 1});
  inputs.set("lS_o", ids({0, 1}));
  EXPECT_THROW(model->forward(inputs), Error);
}

}  // namespace
}  // namespace transom
