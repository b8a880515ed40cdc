// SPDX-License-Identifier: Apache-2.0
#include "models/families/sd3/sd3_original.h"

#include <array>

#include "base/error.h"
#include "files/config/config.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

constexpr int64_t kSd3OriginalLayers = 1000, kSd3OriginalWidth = 1 << 20;

void add_sd3_attention(std::vector<OriginalModule>& names, const std::string& from, const std::string& to,
                       const std::array<const char*, 4>& layers, const char* norm, int64_t width) {
  for (size_t i = 0; i < 3; ++i)
    names.push_back({from + ".qkv", to + layers[i], Change::kNone, static_cast<int64_t>(i) * width, width});
  names.push_back({from + ".proj", to + layers[3]});
  names.push_back({from + ".ln_q", to + norm + "q"});
  names.push_back({from + ".ln_k", to + norm + "k"});
}

void add_sd3_block(std::vector<OriginalModule>& names, int64_t layer, bool is_last, int64_t width) {
  const std::string from = fmt::format("joint_blocks.{}.", layer), to = fmt::format("transformer_blocks.{}.", layer);
  add_sd3_attention(names, from + "x_block.attn", to + "attn.", {"to_q", "to_k", "to_v", "to_out.0"}, "norm_", width);
  add_sd3_attention(names, from + "x_block.attn2", to + "attn2.", {"to_q", "to_k", "to_v", "to_out.0"}, "norm_", width);
  add_sd3_attention(names, from + "context_block.attn", to + "attn.",
                    {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"}, "norm_added_", width);
  names.push_back({from + "x_block.adaLN_modulation.1", to + "norm1.linear"});
  // The last block reads the text alone: its two parts are scale and shift, the other way round.
  names.push_back({from + "context_block.adaLN_modulation.1", to + "norm1_context.linear",
                   is_last ? Change::kHalvesSwapped : Change::kNone});
  for (const auto& [kind, feed] : {std::pair("x_block", "ff"), std::pair("context_block", "ff_context")}) {
    names.push_back({from + kind + ".mlp.fc1", to + feed + ".net.0.proj"});
    names.push_back({from + kind + ".mlp.fc2", to + feed + ".net.2"});
  }
}

std::vector<OriginalModule> sd3_original_names(const Config& config) {
  const int64_t width = positive(config, "num_attention_heads", 18, kSd3OriginalWidth) *
                        positive(config, "attention_head_dim", 64, kSd3OriginalWidth),
                layers = positive(config, "num_layers", 18, kSd3OriginalLayers);
  std::vector<OriginalModule> names = {
      {"pos_embed", "pos_embed.pos_embed"},
      {"x_embedder.proj", "pos_embed.proj"},
      {"context_embedder", "context_embedder"},
      {"t_embedder.mlp.0", "time_text_embed.timestep_embedder.linear_1"},
      {"t_embedder.mlp.2", "time_text_embed.timestep_embedder.linear_2"},
      {"y_embedder.mlp.0", "time_text_embed.text_embedder.linear_1"},
      {"y_embedder.mlp.2", "time_text_embed.text_embedder.linear_2"},
      {"final_layer.linear", "proj_out"},
      {"final_layer.adaLN_modulation.1", "norm_out.linear", Change::kHalvesSwapped},
  };
  for (int64_t i = 0; i < layers; ++i) add_sd3_block(names, i, i + 1 == layers, width);
  return names;
}

}  // namespace

std::vector<OriginalLayout> sd3_original() {
  return {{.beginnings = {"model.diffusion_model.", ""},
           .mark = "joint_blocks.0.context_block.adaLN_modulation.1.bias",
           .names = sd3_original_names},
          {.beginnings = {""}, .mark = "pos_embed.proj.weight"}};
}

}  // namespace transom
