// SPDX-License-Identifier: Apache-2.0
// Files of LoRA: what is read of each kind's names, and what is refused. What they do to pictures is in
// stable_diffusion_test.cpp.
#include <gtest/gtest.h>

#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/model.h"
#include "work/pipelines/diffusion/lora/lora_file.h"
#include "work/pipelines/diffusion/lora/lora_weights.h"

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

std::shared_ptr<Parameter> weight_of(const Model& model, const std::string& module) {
  for (const auto* list : {&model.parameters(), &model.frozen()})
    for (const auto& parameter : *list)
      if (parameter->name == module + ".weight") return parameter;
  return nullptr;
}

// One module of an original file, whose rows are those of several weights one behind the other.
void expect_rows(const std::string& pipeline, const std::string& name, const std::vector<std::string>& modules,
                 bool swaps = false) {
  SCOPED_TRACE(name);
  const auto model = Model::from_pretrained((test::golden_folder() / "diffusion" / pipeline / "transformer").string());
  std::vector<std::vector<float>> before;
  std::vector<std::shared_ptr<Parameter>> weights;
  int64_t rows = 0;
  for (const std::string& module : modules) {
    weights.push_back(weight_of(*model, module));
    ASSERT_TRUE(weights.back()) << module;
    before.push_back(weights.back()->value.to_vector<float>());
    rows += weights.back()->value.dim(0);
  }
  const int64_t in = elements(weights[0]->value.shape()) / weights[0]->value.dim(0);
  const auto numbered = std::make_shared<std::vector<float>>();
  for (int64_t row = 0; row < rows; ++row) numbered->push_back(static_cast<float>(row + 1));
  const TensorView up{DType::kFloat32, {rows, 1}, std::as_bytes(std::span(*numbered)), numbered};
  const test::TemporaryFolder folder;
  LoraWeights lora;
  const std::string path =
      written(folder, {{name + ".lora_down.weight", numbers({1, in})}, {name + ".lora_up.weight", up}});
  lora.use({{path, 0.5}}, {{"unet", model.get()}, {"transformer", model.get()}});
  int64_t first = 0;
  for (size_t m = 0; m < weights.size(); ++m) {
    const std::vector<float> changed = weights[m]->value.to_vector<float>();
    const int64_t own = weights[m]->value.dim(0);
    for (size_t i = 0; i < changed.size(); ++i) {
      int64_t row = static_cast<int64_t>(i) / in;
      if (swaps) row = (row + own / 2) % own;
      ASSERT_NEAR(changed[i], before[m][i] + 0.5f * static_cast<float>(first + row + 1), 1e-4f) << modules[m] << i;
    }
    first += own;
  }
  lora.use({}, {});
  for (size_t m = 0; m < weights.size(); ++m) EXPECT_EQ(weights[m]->value.to_vector<float>(), before[m]);
}

TEST(Lora, OriginalNamesOfFluxAreThoseOfSeveralWeights) {
  const std::string block = "transformer_blocks.0.", single = "single_transformer_blocks.0.";
  for (const char* before : {"lora_unet_", "diffusion_model."}) {
    const std::string start = before;
    const char by = start.back();
    const auto joined = [&](std::string name) {
      for (char& c : name)
        if (by == '_' && c == '.') c = '_';
      return start + name;
    };
    expect_rows("flux/model", joined("double_blocks.0.img_attn.qkv"),
                {block + "attn.to_q", block + "attn.to_k", block + "attn.to_v"});
    expect_rows("flux/model", joined("double_blocks.0.txt_mlp.2"), {block + "ff_context.net.2"});
    expect_rows("flux/model", joined("single_blocks.0.linear1"),
                {single + "attn.to_q", single + "attn.to_k", single + "attn.to_v", single + "proj_mlp"});
    expect_rows("flux/model", joined("final_layer.adaLN_modulation.1"), {"norm_out.linear"}, true);
    expect_rows("flux/model", joined("guidance_in.in_layer"), {"time_text_embed.guidance_embedder.linear_1"});
  }
}

TEST(Lora, OriginalNamesOfStableDiffusion3AreThoseOfSeveralWeights) {
  const std::string first = "transformer_blocks.0.", last = "transformer_blocks.1.";
  expect_rows("sd3/model", "lora_unet_joint_blocks_0_context_block_attn_qkv",
              {first + "attn.add_q_proj", first + "attn.add_k_proj", first + "attn.add_v_proj"});
  expect_rows("sd3/model", "lora_unet_joint_blocks_1_x_block_mlp_fc1", {last + "ff.net.0.proj"});
  expect_rows("sd3/model", "lora_unet_joint_blocks_0_context_block_adaLN_modulation_1",
              {first + "norm1_context.linear"});
  // Of the last block, which gives no text, scale and shift stand the other way round.
  expect_rows("sd3/model", "lora_unet_joint_blocks_1_context_block_adaLN_modulation_1", {last + "norm1_context.linear"},
              true);
  expect_rows("sd3/model", "lora_unet_y_embedder_mlp_0", {"time_text_embed.text_embedder.linear_1"});
}

TEST(Lora, RowsOfSeveralWeightsHaveToFit) {
  const auto model = Model::from_pretrained((test::golden_folder() / "diffusion/flux/model/transformer").string());
  const test::TemporaryFolder folder;
  const std::string name = "lora_unet_double_blocks_0_img_attn_qkv";
  const std::string path =
      written(folder, {{name + ".lora_down.weight", numbers({1, 16})}, {name + ".lora_up.weight", numbers({32, 1})}});
  LoraWeights lora;
  const std::string message = test::message_of([&] { lora.use({{path, 1}}, {{"unet", model.get()}}); });
  EXPECT_NE(message.find("make no weight [16, 16], [16, 16], [16, 16]"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
