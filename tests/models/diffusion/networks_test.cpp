// SPDX-License-Identifier: Apache-2.0
// Options of the networks of diffusers that the main cases do not have, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/golden_values.h"
#include "support/message.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

TEST(DiffusionNetworks, GiveWhatDiffusersGives) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder() / "diffusion" / "networks")) {
    SCOPED_TRACE(entry.path().filename().string());
    const Json golden = read_json(entry.path() / "case.json");
    LoadReport report;
    const auto model = Model::from_pretrained((entry.path() / "model").string(), {}, &report);
    EXPECT_EQ(model->architecture(), golden["class"]);
    EXPECT_EQ(report.missing, std::vector<std::string>{});
    EXPECT_EQ(report.unexpected, std::vector<std::string>{});
    const NoGradient inference;
    const NamedTensors outputs = model->forward(load_inputs(entry.path() / "inputs.safetensors"));
    for (const test::KeptValues& expected : test::golden_values(entry.path() / "expected.safetensors"))
      EXPECT_EQ(golden_difference(expected, outputs.at(expected.name), golden["tolerance"][expected.name]), "")
          << expected.name;
    ++count;
  }
  EXPECT_GE(count, 7);
}

std::string refusal(const std::string& name, const std::string& fields) {
  return test::message_of([&] { Model::from_config("{\"architectures\": [\"" + name + "\"], " + fields + "}"); });
}

TEST(DiffusionNetworks, RefuseByName) {
  const std::string small = R"("block_out_channels": [4, 8], "norm_num_groups": 2, "cross_attention_dim": 8,
      "down_block_types": ["DownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "UpBlock2D"],
      "attention_head_dim": 2, "layers_per_block": 1, )";
  const auto unet = [&](const std::string& fields) { return refusal("UNet2DConditionModel", small + fields); };
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"dual_cross_attention", "true"},
           {"attention_type", "\"gated\""},
           {"time_embedding_type", "\"fourier\""},
           {"num_attention_heads", "4"},
           {"encoder_hid_dim_type", "\"image_proj\""},
           {"addition_embed_type", "\"image\""},
           {"class_embed_type", "\"strange\""},
           {"mid_block_type", "\"UNetMidBlock2DSimpleCrossAttn\""},
           {"resnet_time_scale_shift", "\"spatial\""},
           {"act_fn", "\"tanh\""},
           {"conv_in_kernel", "4"},
           {"transformer_layers_per_block", "-1"}})
    EXPECT_NE(unet(std::string("\"") + field + "\": " + value).find(field), std::string::npos) << field;
  const std::string control = R"("block_out_channels": [4, 8], "norm_num_groups": 2, "cross_attention_dim": 8,
      "down_block_types": ["DownBlock2D", "DownBlock2D"], "attention_head_dim": 2, "layers_per_block": 1, )";
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"controlnet_conditioning_channel_order", "\"grb\""},
           {"conditioning_embedding_out_channels", "[]"},
           {"conditioning_embedding_out_channels", "[4, 100000000000]"},
           {"conditioning_channels", "0"},
           {"mid_block_type", "null"},
           {"class_embed_type", "\"simple_projection\", \"projection_class_embeddings_input_dim\": 4"},
           {"encoder_hid_dim", "4"}})
    EXPECT_NE(refusal("ControlNetModel", control + "\"" + field + "\": " + value).find(field), std::string::npos)
        << field;
  EXPECT_NE(refusal("UNet2DConditionModel", R"("down_block_types": ["A"])").find("down_block_types"),
            std::string::npos);
  EXPECT_NE(refusal("AutoencoderKL", R"("block_out_channels": [4], "norm_num_groups": 3)").find("norm_num_groups"),
            std::string::npos);
  EXPECT_NE(refusal("AutoencoderKL", R"("block_out_channels": [1e30])").find("block_out_channels"), std::string::npos);
  EXPECT_NE(refusal("UNet2DModel", R"("down_block_types": ["SkipDownBlock2D", "a", "b", "c"])").find("SkipDownBlock2D"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
