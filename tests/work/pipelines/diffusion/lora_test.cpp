// SPDX-License-Identifier: Apache-2.0
// Files of LoRA: what is read of each kind's names, and what is refused. What they do to pictures is in
// stable_diffusion_test.cpp.
#include <gtest/gtest.h>

#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"
#include "work/pipelines/diffusion/lora_file.h"
#include "work/pipelines/diffusion/lora_weights.h"

namespace transom {
namespace {

TensorView numbers(const std::vector<int64_t>& shape, float value = 1) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const auto owner = std::make_shared<std::vector<float>>(static_cast<size_t>(count), value);
  return {DType::kFloat32, shape, std::as_bytes(std::span(*owner)), owner};
}

std::string written(const test::TemporaryFolder& folder, const NamedViews& tensors,
                    std::map<std::string, std::string> metadata = {}) {
  const std::string path = folder / "lora.safetensors";
  write_safetensors(path, tensors, metadata);
  return path;
}

TEST(Lora, NamesOfEachKindAreOneModule) {
  for (const char* name : {"unet.down_blocks.0.attentions.0.attn1.to_out.0.lora_A.weight",
                           "unet.down_blocks.0.attentions.0.attn1.to_out.0.lora.down.weight",
                           "unet.down_blocks.0.attentions.0.attn1.processor.to_out_lora.down.weight",
                           "down_blocks.0.attentions.0.attn1.processor.to_out_lora.down.weight",
                           "lora_unet_down_blocks_0_attentions_0_attn1_to_out_0.lora_down.weight"}) {
    const test::TemporaryFolder folder;
    std::string up = name;
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"lora_A", "lora_B"}, {"down.weight", "up.weight"}})
      if (const size_t at = up.find(from); at != up.npos) up.replace(at, from.size(), to);
    const LoraProducts parts = read_lora(written(folder, {{name, numbers({2, 3})}, {up, numbers({5, 2})}}));
    ASSERT_EQ(parts.size(), 1u) << name;
    ASSERT_TRUE(parts.contains("unet")) << name;
    EXPECT_TRUE(parts.at("unet").contains("down_blocks_0_attentions_0_attn1_to_out_0"))
        << name << ": " << parts.at("unet").begin()->first;
    EXPECT_EQ(parts.at("unet").begin()->second.scale, 1);
  }
}

TEST(Lora, AlphaIsOfTheFile) {
  const test::TemporaryFolder folder;
  const NamedViews factors{{"lora_te2_a.lora_down.weight", numbers({4, 3})},
                           {"lora_te2_a.lora_up.weight", numbers({5, 4})},
                           {"lora_te2_a.alpha", numbers({}, 2)}};
  EXPECT_EQ(read_lora(written(folder, factors)).at("text_encoder_2").at("a").scale, 0.5);
  const NamedViews plain{{"unet.m.a.lora_A.weight", numbers({4, 3})}, {"unet.m.a.lora_B.weight", numbers({5, 4})}};
  EXPECT_EQ(read_lora(written(folder, plain, {{"lora_adapter_metadata", R"({"unet.r": 4, "unet.lora_alpha": 8})"}}))
                .at("unet")
                .at("m_a")
                .scale,
            2);
  EXPECT_EQ(read_lora(written(folder, plain,
                              {{"lora_adapter_metadata",
                                R"({"unet.lora_alpha": 8, "unet.alpha_pattern": {"a": 6}, "unet.use_rslora": true})"}}))
                .at("unet")
                .at("m_a")
                .scale,
            3);
}

TEST(Lora, RefusesWhatItCannotAdd) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const NamedViews& tensors, std::map<std::string, std::string> metadata = {}) {
    const std::string message = test::message_of([&] { read_lora(written(folder, tensors, metadata)); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  };
  const std::pair<std::string, TensorView> down{"unet.a.lora_A.weight", numbers({2, 3})},
      up{"unet.a.lora_B.weight", numbers({5, 2})};
  EXPECT_NE(refusal({down}).find("missing"), std::string::npos);
  EXPECT_NE(refusal({down, {"unet.a.lora_B.weight", numbers({5, 4})}}).find("ranks"), std::string::npos);
  EXPECT_NE(refusal({down, up, {"unet.a.lora_magnitude_vector", numbers({5})}}).find("DoRA"), std::string::npos);
  EXPECT_NE(refusal({{"unet.a.alpha", numbers({})}}).find("alpha"), std::string::npos);
  EXPECT_NE(refusal({down, up, {"unet.a.alpha", numbers({1 << 10})}}).find("one number"), std::string::npos);
  EXPECT_NE(refusal({down, up}, {{"lora_adapter_metadata", "[1"}}).find("lora_adapter_metadata"), std::string::npos);
  EXPECT_NE(refusal({down, up}, {{"lora_adapter_metadata", R"({"unet.use_dora": true})"}}).find("use_dora"),
            std::string::npos);
}

// The two names that kohya's scripts have for a module of XL, and that the weights come back.
TEST(Lora, IsAddedByStabilitysNamesAndTakenOut) {
  const auto unet = Model::from_pretrained((test::golden_folder() / "diffusion/sdxl/model/unet").string());
  std::shared_ptr<Parameter> query;
  for (const auto& parameter : unet->parameters())
    if (parameter->name == "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight") query = parameter;
  ASSERT_TRUE(query);
  const std::vector<float> before = query->value.to_vector<float>();
  const int64_t out = query->value.dim(0), in = query->value.dim(1);
  const test::TemporaryFolder folder;
  // One layer a block: the convolution at the start is 0, the first block 1 and 2, this one 3.
  const std::string name = "lora_unet_input_blocks_3_1_transformer_blocks_0_attn1_to_q";
  const std::string path = written(
      folder, {{name + ".lora_down.weight", numbers({1, in})}, {name + ".lora_up.weight", numbers({out, 1}, 0.5f)}});
  LoraWeights lora;
  const LoraWeights::Parts parts{{"unet", unet.get()}, {"text_encoder", nullptr}};
  lora.use({{path, 0.5}}, parts);
  const std::vector<float> changed = query->value.to_vector<float>();
  for (size_t i = 0; i < before.size(); ++i) ASSERT_FLOAT_EQ(changed[i], before[i] + 0.25f);
  lora.use({}, parts);
  EXPECT_EQ(query->value.to_vector<float>(), before);
  const std::string other = written(
      folder, {{"unet.nothing.lora_A.weight", numbers({1, in})}, {"unet.nothing.lora_B.weight", numbers({out, 1})}});
  EXPECT_NE(test::message_of([&] { lora.use({{other, 1}}, parts); }).find("nothing"), std::string::npos);
  const std::string wide = written(
      folder, {{name + ".lora_down.weight", numbers({1, in + 1})}, {name + ".lora_up.weight", numbers({out, 1})}});
  EXPECT_NE(test::message_of([&] { lora.use({{wide, 1}}, parts); }).find("make no weight"), std::string::npos);
  EXPECT_EQ(query->value.to_vector<float>(), before);
  const std::string text = written(folder, {{"text_encoder.a.lora_A.weight", numbers({1, in})},
                                            {"text_encoder.a.lora_B.weight", numbers({out, 1})}});
  EXPECT_NE(test::message_of([&] { lora.use({{text, 1}}, parts); }).find("text_encoder"), std::string::npos);
}

}  // namespace
}  // namespace transom
