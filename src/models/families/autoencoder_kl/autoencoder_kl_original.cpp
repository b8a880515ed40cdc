// SPDX-License-Identifier: Apache-2.0
#include "models/families/autoencoder_kl/autoencoder_kl_original.h"

#include "base/error.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/unet_blocks.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

void add_vae_resnet(std::vector<OriginalModule>& names, const std::string& from, const std::string& to) {
  names.push_back({from, to});
  names.push_back({from + ".nin_shortcut", to + ".conv_shortcut"});
}

void add_vae_middle(std::vector<OriginalModule>& names, const std::string& half) {
  add_vae_resnet(names, half + ".mid.block_1", half + ".mid_block.resnets.0");
  add_vae_resnet(names, half + ".mid.block_2", half + ".mid_block.resnets.1");
  const std::string from = half + ".mid.attn_1.", to = half + ".mid_block.attentions.0.";
  names.push_back({from + "norm", to + "group_norm"});
  names.push_back({from + "q", to + "to_q", Change::kMatrix});
  names.push_back({from + "k", to + "to_k", Change::kMatrix});
  names.push_back({from + "v", to + "to_v", Change::kMatrix});
  names.push_back({from + "proj_out", to + "to_out.0", Change::kMatrix});
  names.push_back({half + ".norm_out", half + ".conv_norm_out"});
}

std::vector<OriginalModule> vae_original_names(const Config& config) {
  const auto blocks = static_cast<int64_t>(block_channels(config, {64}).size());
  const int64_t layers = positive(config, "layers_per_block", 1, 1000);
  std::vector<OriginalModule> names = {{"loss", ""}, {"model_ema", ""}};  // of its training
  for (int64_t block = 0; block < blocks; ++block) {
    const std::string down = fmt::format("encoder.down.{}.", block), up = fmt::format("decoder.up.{}.", block),
                      down_to = fmt::format("encoder.down_blocks.{}.", block),
                      up_to = fmt::format("decoder.up_blocks.{}.", blocks - 1 - block);
    for (int64_t layer = 0; layer < layers; ++layer)
      add_vae_resnet(names, fmt::format("{}block.{}", down, layer), fmt::format("{}resnets.{}", down_to, layer));
    for (int64_t layer = 0; layer <= layers; ++layer)
      add_vae_resnet(names, fmt::format("{}block.{}", up, layer), fmt::format("{}resnets.{}", up_to, layer));
    names.push_back({down + "downsample.conv", down_to + "downsamplers.0.conv"});
    names.push_back({up + "upsample.conv", up_to + "upsamplers.0.conv"});
  }
  add_vae_middle(names, "encoder");
  add_vae_middle(names, "decoder");
  return names;
}

}  // namespace

std::vector<OriginalLayout> autoencoder_kl_original() {
  return {{.beginnings = {"first_stage_model.", "vae.", ""},
           .mark = "decoder.norm_out.weight",
           .names = vae_original_names},
          {.beginnings = {""}, .mark = "decoder.conv_norm_out.weight"}};
}

}  // namespace transom
