// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/original_unet.h"

#include "base/error.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/unet_blocks.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kMostLayersOfBlock = 1000;

void add_original_resnet(std::vector<OriginalModule>& names, const std::string& from, const std::string& to) {
  static constexpr std::pair<const char*, const char*> kLayers[] = {
      {"in_layers.0", "norm1"},  {"in_layers.2", "conv1"},  {"emb_layers.1", "time_emb_proj"},
      {"out_layers.0", "norm2"}, {"out_layers.3", "conv2"}, {"skip_connection", "conv_shortcut"}};
  for (const auto& [original, name] : kLayers) names.push_back({from + "." + original, to + "." + name});
}

// What stands before the way up: blocks behind each other, of which a block here has `layers`, and one that pools.
std::vector<OriginalModule> original_way_down(const Config& config, size_t blocks, int64_t layers) {
  std::vector<OriginalModule> names = {{"time_embed.0", "time_embedding.linear_1"},
                                       {"time_embed.2", "time_embedding.linear_2"},
                                       {"input_blocks.0.0", "conv_in"}};
  const bool adds = config.get_string("addition_embed_type", "") == "text_time";
  const std::string label = adds ? "add_embedding" : "class_embedding";
  names.push_back({"label_emb.0.0", label + ".linear_1"});
  names.push_back({"label_emb.0.2", label + ".linear_2"});
  names.push_back({"label_emb.weight", "class_embedding.weight"});
  int64_t place = 1;
  for (size_t block = 0; block < blocks; ++block) {
    const std::string to = fmt::format("down_blocks.{}.", block);
    for (int64_t layer = 0; layer < layers; ++layer, ++place) {
      add_original_resnet(names, fmt::format("input_blocks.{}.0", place), fmt::format("{}resnets.{}", to, layer));
      names.push_back({fmt::format("input_blocks.{}.1", place), fmt::format("{}attentions.{}", to, layer)});
    }
    names.push_back({fmt::format("input_blocks.{}.0.op", place++), to + "downsamplers.0.conv"});
  }
  add_original_resnet(names, "middle_block.0", "mid_block.resnets.0");
  names.push_back({"middle_block.1", "mid_block.attentions.0"});
  add_original_resnet(names, "middle_block.2", "mid_block.resnets.1");
  return names;
}

int64_t layers_of_block(const Config& config) { return positive(config, "layers_per_block", 2, kMostLayersOfBlock); }

std::vector<OriginalModule> unet_original_names(const Config& config) {
  const size_t blocks = block_channels(config, {320, 640, 1280, 1280}).size();
  const int64_t layers = layers_of_block(config);
  std::vector<OriginalModule> names = original_way_down(config, blocks, layers);
  int64_t place = 0;
  for (size_t block = 0; block < blocks; ++block)
    for (int64_t layer = 0; layer <= layers; ++layer, ++place) {
      const std::string from = fmt::format("output_blocks.{}.", place), to = fmt::format("up_blocks.{}.", block);
      add_original_resnet(names, from + "0", fmt::format("{}resnets.{}", to, layer));
      names.push_back({from + "1", fmt::format("{}attentions.{}", to, layer)});
      names.push_back({from + "1.conv", to + "upsamplers.0.conv"});  // in a block without attention
      names.push_back({from + "2.conv", to + "upsamplers.0.conv"});
    }
  names.push_back({"out.0", "conv_norm_out"});
  names.push_back({"out.2", "conv_out"});
  return names;
}

std::vector<OriginalModule> controlnet_original_names(const Config& config) {
  const size_t blocks = block_channels(config, {320, 640, 1280, 1280}).size();
  const int64_t layers = layers_of_block(config);
  std::vector<OriginalModule> names = original_way_down(config, blocks, layers);
  const auto places = static_cast<int64_t>(blocks) * (layers + 1);
  for (int64_t place = 0; place < places; ++place)
    names.push_back({fmt::format("zero_convs.{}.0", place), fmt::format("controlnet_down_blocks.{}", place)});
  names.push_back({"middle_block_out.0", "controlnet_mid_block"});
  const size_t widths = config.get_ints("conditioning_embedding_out_channels", {16, 32, 96, 256}).size();
  const size_t between = widths > 0 ? 2 * (widths - 1) : 0;
  names.push_back({"input_hint_block.0", "controlnet_cond_embedding.conv_in"});
  for (size_t i = 0; i < between; ++i)
    names.push_back(
        {fmt::format("input_hint_block.{}", 2 * (i + 1)), fmt::format("controlnet_cond_embedding.blocks.{}", i)});
  names.push_back({fmt::format("input_hint_block.{}", 2 * (between + 1)), "controlnet_cond_embedding.conv_out"});
  return names;
}

}  // namespace

std::vector<OriginalLayout> unet_original() {
  return {{.beginnings = {"model.diffusion_model.", ""},
           .mark = "output_blocks.0.0.in_layers.0.weight",
           .names = unet_original_names},
          {.beginnings = {""}, .mark = "up_blocks.0.resnets.0.norm1.weight"}};
}

std::vector<OriginalLayout> controlnet_original() {
  return {
      {.beginnings = {"control_model.", ""}, .mark = "input_hint_block.0.weight", .names = controlnet_original_names},
      {.beginnings = {""}, .mark = "controlnet_cond_embedding.conv_in.weight"}};
}

}  // namespace transom
