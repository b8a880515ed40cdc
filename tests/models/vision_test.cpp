// SPDX-License-Identifier: Apache-2.0
// Models of images made from configurations: what they refuse by name, and that buffers are part of a checkpoint.
#include <gtest/gtest.h>

#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"

namespace transom {
namespace {

Tensor image(int64_t channels, int64_t height, int64_t width) {
  return Tensor::from(std::vector<float>(static_cast<size_t>(channels * height * width), 0.5f),
                      {1, channels, height, width});
}

std::string refusal(const std::string& config, const NamedTensors& inputs = {}) {
  return test::message_of([&] {
    const auto model = Model::from_config(config);
    if (!inputs.empty()) model->forward(inputs);
  });
}

constexpr const char* kViT = R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 8,
  "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8, "patch_size": 4})";

TEST(VisionModels, RefuseOtherImagesByName) {
  EXPECT_NE(refusal(kViT, {{"pixel_values", image(3, 12, 8)}}).find("interpolate_pos_encoding"), std::string::npos);
  EXPECT_NE(refusal(kViT, {{"pixel_values", image(1, 8, 8)}}).find("pixel_values"), std::string::npos);
  const auto model = Model::from_config(kViT);
  EXPECT_EQ(
      model->forward({{"pixel_values", image(3, 12, 8)}}, {.interpolate_pos_encoding = true}).at("logits").shape(),
      (Shape{1, 2}));
}

TEST(VisionModels, RefuseConfigurationsThatCannotBe) {
  EXPECT_NE(
      refusal(R"({"model_type": "resnet", "architectures": ["ResNetModel"], "layer_type": "wide"})").find("layer_type"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "efficientnet", "architectures": ["EfficientNetModel"], "hidden_dim": 7})")
                .find("hidden_dim"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"model_type": "swin", "architectures": ["SwinModel"], "num_heads": [5, 5, 5, 5]})").find("num_heads"),
      std::string::npos);
}

TEST(VisionModels, OfTimmOnlyWhatIsCarriedOut) {
  const auto timm = [](const std::string& fields) { return "{\"pretrained_cfg\": {}, " + fields + "}"; };
  EXPECT_NE(refusal(timm(R"("architecture": "vgg16")")).find("vgg16"), std::string::npos);
  EXPECT_NE(refusal(timm(R"("architecture": "resnet50", "model_args": {"aa_layer": "blurpool"})")).find("aa_layer"),
            std::string::npos);
  EXPECT_NE(
      refusal(timm(R"("architecture": "mobilenetv3_small_050", "model_args": {"se_layer": "gc"})")).find("se_layer"),
      std::string::npos);
  EXPECT_NE(refusal(timm(R"("architecture": "resnet18", "model_args": {"cardinality": 4})")).find("cardinality"),
            std::string::npos);
  // timm's own names of activations.
  const auto activated = [&](const std::string& name) {
    return timm(R"("architecture": "resnet10t", "num_classes": 2, "model_args": {"channels": [4, 4, 4, 4],
      "stem_width": 4, "act_layer": ")" +
                name + R"("})");
  };
  EXPECT_NE(refusal(activated("hard_swoosh"), {{"pixel_values", image(3, 32, 32)}}).find("hard_swoosh"),
            std::string::npos);
  for (const char* name : {"relu", "hard_swish", "gelu_tanh"}) {
    const auto model = Model::from_config(activated(name));
    EXPECT_EQ(model->forward({{"pixel_values", image(3, 32, 32)}}).at("logits").shape(), (Shape{1, 2})) << name;
  }
}

TEST(VisionModels, BuffersAreInTheCheckpointAndAreNoParameters) {
  const auto model = Model::from_config(R"({"model_type": "resnet", "architectures": ["ResNetModel"],
    "embedding_size": 4, "hidden_sizes": [4], "depths": [1], "layer_type": "basic"})");
  ASSERT_EQ(model->buffers().size(), 9u);  // three norms
  for (const auto& parameter : model->parameters()) EXPECT_EQ(parameter->name.find("running_"), std::string::npos);
  std::vector<BufferUpdate> updates;
  model->forward({{"pixel_values", image(3, 16, 16)}}, {.training = true, .buffer_updates = &updates});
  ASSERT_EQ(updates.size(), 9u);
  for (const BufferUpdate& update : updates) update.buffer->value = update.value;

  const test::TemporaryFolder folder;
  model->save_pretrained(folder.string());
  LoadReport report;
  const auto loaded = Model::from_pretrained(folder.string(), {}, &report);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  for (size_t i = 0; i < 9; ++i)
    EXPECT_EQ(loaded->buffers()[i]->value.to_bytes(), model->buffers()[i]->value.to_bytes())
        << model->buffers()[i]->name;
}

}  // namespace
}  // namespace transom
