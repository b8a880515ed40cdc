// SPDX-License-Identifier: Apache-2.0
// Models made from a configuration: what they refuse, and that they come back from their own checkpoint.
#include "transom/model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::message_of;

constexpr const char* kSmall = R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 11,
  "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6,
  "max_position_embeddings": 5})";

NamedTensors tokens(int64_t length) {
  return {{"input_ids", Tensor::from(std::vector<int64_t>(static_cast<size_t>(length), 3), {1, length})}};
}

TEST(Model, RefusesInputsItDoesNotKnow) {
  const auto model = Model::from_config(kSmall);
  NamedTensors inputs = tokens(2);
  inputs.set("input_idz", inputs.at("input_ids"));
  const std::string message = message_of([&] { model->forward(inputs); });
  EXPECT_NE(message.find("did you mean 'input_ids'"), std::string::npos) << message;
  EXPECT_NE(message_of([&] { model->forward({}); }).find("input_ids"), std::string::npos);
}

// Devices treat what stays as it is in ways of their own: fresh weights are no slower than those that were read.
TEST(Model, HasFreshWeightsThatStayAsTheyAre) {
  const auto model = Model::from_config(kSmall);
  for (const auto& parameter : model->parameters()) EXPECT_TRUE(buffer_of(parameter->value)->frozen());
}

TEST(Model, RefusesMoreTokensThanPositions) {
  const auto model = Model::from_config(kSmall);
  EXPECT_NO_THROW(model->forward(tokens(5)));
  EXPECT_NE(message_of([&] { model->forward(tokens(6)); }).find("max_position_embeddings"), std::string::npos);
}

TEST(Model, RefusesWhatItDoesNotCarryOut) {
  std::string decoder = kSmall;
  decoder.insert(1, R"("is_decoder": true, "add_cross_attention": true, )");
  EXPECT_NE(message_of([&] { Model::from_config(decoder); }).find("add_cross_attention"), std::string::npos);
  std::string relative = kSmall;
  relative.insert(1, R"("position_embedding_type": "relative_key", )");
  EXPECT_NE(message_of([&] { Model::from_config(relative); }).find("relative_key"), std::string::npos);
}

// The modes compile and graph: a pass without gradients is a program, bound to the weights as they are.
TEST(Model, GivesTheSameBitsInAllModes) {
  const auto model = Model::from_config(kSmall);
  const NoGradient inference;
  const auto expected = model->forward(tokens(4)).at("logits").to_bytes();
  for (const Mode mode : {Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    set_mode(mode);
    for (int call = 0; call < 2; ++call) EXPECT_EQ(model->forward(tokens(4)).at("logits").to_bytes(), expected);
  }
  for (const auto& parameter : model->parameters()) parameter->value = parameter->value + 0.5;
  const auto moved = model->forward(tokens(4)).at("logits").to_bytes();
  set_mode(Mode::kLazy);
  EXPECT_EQ(model->forward(tokens(4)).at("logits").to_bytes(), moved);
  EXPECT_NE(moved, expected);
}

TEST(Model, ATiedWeightIsOneParameter) {
  const auto model = Model::from_config(kSmall);
  int64_t vocabulary_weights = 0;
  for (const auto& parameter : model->parameters()) vocabulary_weights += parameter->value.shape() == Shape{11, 8};
  EXPECT_EQ(vocabulary_weights, 1);
}

TEST(Model, ComesBackFromItsCheckpointInShards) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "transom_model_test";
  const auto model = Model::from_config(kSmall);
  model->save_pretrained(folder.string(), 512);
  LoadReport report;
  const auto loaded = Model::from_pretrained(folder.string(), {}, &report);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_EQ(loaded->forward(tokens(4)).at("logits").to_vector<float>(),
            model->forward(tokens(4)).at("logits").to_vector<float>());
  std::filesystem::remove_all(folder);
}

// A head is put on the body of another model; what only the other head had is left aside.
TEST(Model, ATaskChoosesAHeadForTheSameBody) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "transom_model_head_test";
  Model::from_config(kSmall)->save_pretrained(folder.string());
  LoadReport report;
  const auto model =
      Model::from_pretrained(folder.string(), {.task = "token-classification", .num_labels = 3}, &report);
  EXPECT_EQ(model->architecture(), "BertForTokenClassification");
  EXPECT_EQ(report.missing, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(report.unexpected.size(), 5u);  // cls.predictions
  EXPECT_EQ(model->forward(tokens(4)).at("logits").shape(), (Shape{1, 4, 3}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace transom
