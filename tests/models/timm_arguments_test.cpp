// SPDX-License-Identifier: Apache-2.0
// What timm 1.0.31 writes as model_args (save_for_hf): the number of classes, the channels and the pooling among them.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "support/message.h"
#include "transom/config.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::string timm_config(int64_t classes, const std::string& pool, int64_t channels = 3) {
  return fmt::format(R"({{"architecture": "resnet10t", "num_classes": {0}, "num_features": 32, "global_pool": "{1}",
      "model_args": {{"num_classes": {0}, "in_chans": {2}, "global_pool": "{1}", "channels": [8, 8, 16, 32]}},
      "pretrained_cfg": {{"input_size": [{2}, 32, 32], "num_classes": {0}, "classifier": "fc"}}}})",
                     classes, pool, channels);
}

NamedTensors outputs_of(const Model& model, int64_t channels = 3) {
  std::vector<float> values(static_cast<size_t>(2 * channels * 64 * 64));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 13) / 13 - 0.5f;
  const NoGradient inference;
  return model.forward({{"pixel_values", Tensor::from(values, {2, channels, 64, 64})}}, {.output_hidden_states = true});
}

TEST(TimmArguments, ThePoolingIsTimms) {
  for (const char* pool : {"avg", "max", "avgmax", "catavgmax", "fast"}) {
    const auto model = Model::from_config(timm_config(0, pool));  // without classes the features are given
    const NamedTensors outputs = outputs_of(*model);
    const Tensor features = outputs.at("logits"), map = outputs.items().back().second;
    ASSERT_EQ(map.rank(), 4) << outputs.items().back().first;
    const auto cells = map.to_vector<float>(), got = features.to_vector<float>();
    const int64_t area = map.dim(2) * map.dim(3), width = map.dim(1);
    const bool both = std::string(pool) == "catavgmax";
    ASSERT_EQ(features.shape(), (Shape{2, both ? 2 * width : width}));
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t c = 0; c < width; ++c) {
        const float* cell = cells.data() + (row * width + c) * area;
        float sum = 0, most = cell[0];
        for (int64_t i = 0; i < area; ++i) sum += cell[i], most = std::max(most, cell[i]);
        const float mean = sum / static_cast<float>(area);
        const std::string name = pool;
        const float expected = name == "max" ? most : name == "avgmax" ? (mean + most) / 2 : mean;
        const int64_t at = row * features.dim(1) + c;
        EXPECT_NEAR(got[static_cast<size_t>(at)], expected, 1e-5) << pool;
        if (both) {
          EXPECT_NEAR(got[static_cast<size_t>(at + width)], most, 1e-5);
        }
      }
  }
  EXPECT_NE(test::message_of([] { Model::from_config(timm_config(3, "")); }).find("global_pool = ''"),
            std::string::npos);
}

TEST(TimmArguments, ClassesAndChannelsAreReadAndChanged) {
  const auto model = Model::from_config(timm_config(7, "avg", 1));
  EXPECT_EQ(outputs_of(*model, 1).at("logits").shape(), (Shape{2, 7}));
  const auto changed = Model::from_config(timm_config(7, "avg"), {.num_labels = 4});
  EXPECT_EQ(outputs_of(*changed).at("logits").shape(), (Shape{2, 4}));
  const Json config = parse_json(changed->config().dump(), "config.json");
  EXPECT_EQ(config["num_classes"], 4);
  EXPECT_EQ(config["model_args"]["num_classes"], 4);
}

// As many numbers as timm's networks of the same names have.
TEST(TimmArguments, NamesSayTheShapesOfNetworks) {
  struct Known {
    const char *name, *arguments;
    int64_t count;
  };
  const Known known[] = {{"mobilenetv3_small_050.lamb_in1k", "", 573349},
                         {"tf_mobilenetv3_small_minimal_100.in1k", "", 1024861},
                         {"mobilenetv2_035", "", 402533},
                         {"fastvit_t8.apple_dist_in1k", "", 3261077},
                         {"deit3_small_patch16_224", R"("depth": 1)", 2148869},
                         {"convnext_atto_ols.a2_in1k", "", 3383517},
                         {"convnextv2_atto", "", 3389005},
                         {"swin_s3_tiny_224.ms_in1k", R"("embed_dim": 24)", 1796087}};
  for (const auto& [name, arguments, count] : known) {
    const auto model = Model::from_config(fmt::format(
        R"({{"architecture": "{}", "num_classes": 5, "num_features": 1, "model_args": {{{}}}, "pretrained_cfg": {{}}}})",
        name, arguments));
    int64_t found = 0;
    for (const auto& parameter : model->parameters()) found += parameter->value.size();
    EXPECT_EQ(found, count) << name;
  }
  // TensorFlow trained no such network, and PyTorch none of those.
  for (const char* name :
       {"tf_mobilenetv3_small_050", "mobilenetv3_small_minimal_100", "mobilenetv4_conv_small", "convnext_huge",
        "convnextv2_xxlarge", "convnext_tiny_ols", "swin_tiny_patch4_window12_384"}) {
    const std::string config = fmt::format(R"({{"architecture": "{}", "pretrained_cfg": {{}}}})", name);
    EXPECT_NE(test::message_of([&] { Model::from_config(config); }).find(name), std::string::npos);
  }
}

// Lists of one number a stage, and sides of pictures, are checked before memory follows from them.
TEST(TimmArguments, ShapesThatCannotBeAreRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"fastvit_t8", R"("layers": [1, 0, 1, 1])"},
      {"fastvit_t8", R"("layers": [1, 1, 1])"},
      {"fastvit_t8", R"("layers": [1, 1, 1, 1000000000])"},
      {"fastvit_t8", R"("embed_dims": [8, 8, 8])"},
      {"fastvit_t8", R"("embed_dims": [8, 12, 24, 48])"},
      {"fastvit_t8", R"("embed_dims": [1, 1, 1, 1000000000])"},
      {"fastvit_t8", R"("embed_dims": "many")"},
      {"fastvit_t8", R"("mlp_ratios": [1, 1, 1, 1e30])"},
      {"fastvit_t8", R"("token_mixers": ["repmixer", "repmixer", "repmixer", "pooling"])"},
      {"fastvit_sa12", R"("embed_dims": [8, 8, 8, 8])"},
      {"fastvit_t8", R"("down_patch_size": 4)"},
      {"fastvit_t8", R"("cls_ratio": 1.5)"},
      {"fastvit_t8", R"("fork_feat": true)"},
      {"fastvit_t8", R"("pos_embs": [null, null, null, 7])"},
      {"vit_tiny_patch16_224", R"("img_size": 8)"},
      {"vit_tiny_patch16_224", R"("img_size": 100000000)"},
      {"vit_tiny_patch16_224", R"("num_heads": 5)"},
      {"vit_tiny_patch16_224", R"("class_token": false)"},
      {"vit_tiny_patch16_224", R"("global_pool": "map")"},
      {"vit_tiny_patch16_224", R"("qk_norm": true)"},
      {"convnext_tiny", R"("dims": [8, 8, 8])"},
      {"convnext_tiny", R"("depths": [1, 1, 1, 1000000000])"},
      {"convnext_tiny", R"("kernel_sizes": [7, 7, 7, 6])"},
      {"convnext_tiny", R"("patch_size": 8)"},
      {"convnext_tiny", R"("global_pool": "catavgmax")"},
      {"convnext_tiny", R"("norm_layer": "rmsnorm")"},
      {"convnext_tiny", R"("stem_type": "overlap_act")"},
      {"convnext_tiny", R"("output_stride": 16)"},
      {"convnext_tiny_hnf", R"("head_hidden_size": 8)"},
      {"swin_tiny_patch4_window7_224", R"("embed_dim": 1000000000)"},
      {"swin_tiny_patch4_window7_224", R"("embed_dim": 100)"},
      {"swin_tiny_patch4_window7_224", R"("depths": [2, 2])"},
      {"swin_tiny_patch4_window7_224", R"("window_size": [7, 7, 7])"},
      {"swin_tiny_patch4_window7_224", R"("window_size": [7, 7, [7, 0], 7])"},
      {"swin_tiny_patch4_window7_224", R"("window_size": 8000, "img_size": 8000)"},
      {"swin_tiny_patch4_window7_224", R"("img_size": 3)"},
      {"swin_tiny_patch4_window7_224", R"("always_partition": true)"},
      {"swin_tiny_patch4_window7_224", R"("head_dim": 8)"}};
  for (const auto& [name, argument] : refused) {
    const std::string config =
        fmt::format(R"({{"architecture": "{}", "model_args": {{{}}}, "pretrained_cfg": {{}}}})", name, argument);
    const std::string message = test::message_of([&] { Model::from_config(config); });
    EXPECT_NE(message, "") << name << ", " << argument;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace transom
