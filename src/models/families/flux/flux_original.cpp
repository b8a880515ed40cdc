// SPDX-License-Identifier: Apache-2.0
#include "models/families/flux/flux_original.h"

#include <array>

#include "base/error.h"
#include "files/config/config.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

constexpr int64_t kFluxOriginalLayers = 1000, kFluxOriginalWidth = 1 << 20;

void add_flux_around(std::vector<OriginalModule>& names) {
  const auto two_layers = [&](const char* original, const char* name) {
    names.push_back({fmt::format("{}.in_layer", original), fmt::format("time_text_embed.{}.linear_1", name)});
    names.push_back({fmt::format("{}.out_layer", original), fmt::format("time_text_embed.{}.linear_2", name)});
  };
  two_layers("time_in", "timestep_embedder");
  two_layers("vector_in", "text_embedder");
  two_layers("guidance_in", "guidance_embedder");
  names.push_back({"txt_in", "context_embedder"});
  names.push_back({"img_in", "x_embedder"});
  names.push_back({"final_layer.linear", "proj_out"});
  names.push_back({"final_layer.adaLN_modulation.1", "norm_out.linear", Change::kHalvesSwapped});
}

// Pictures ("img") and texts ("txt") have layers of their own in these.
void add_flux_double(std::vector<OriginalModule>& names, int64_t layer, int64_t width) {
  const std::string from = fmt::format("double_blocks.{}.", layer), to = fmt::format("transformer_blocks.{}.", layer);
  const auto side = [&](const std::string& kind, const std::array<const char*, 3>& projections, const char* out,
                        const std::string& norm, const std::string& more) {
    for (size_t i = 0; i < projections.size(); ++i)
      names.push_back({from + kind + "_attn.qkv", to + "attn." + projections[i], Change::kNone,
                       static_cast<int64_t>(i) * width, width});
    names.push_back({from + kind + "_attn.proj", to + "attn." + out});
    names.push_back({from + kind + "_attn.norm.query_norm.scale", to + "attn." + norm + "q.weight"});
    names.push_back({from + kind + "_attn.norm.key_norm.scale", to + "attn." + norm + "k.weight"});
    names.push_back({from + kind + "_mod.lin", to + "norm1" + more + ".linear"});
    names.push_back({from + kind + "_mlp.0", to + "ff" + more + ".net.0.proj"});
    names.push_back({from + kind + "_mlp.2", to + "ff" + more + ".net.2"});
  };
  side("img", {"to_q", "to_k", "to_v"}, "to_out.0", "norm_", "");
  side("txt", {"add_q_proj", "add_k_proj", "add_v_proj"}, "to_add_out", "norm_added_", "_context");
}

void add_flux_single(std::vector<OriginalModule>& names, int64_t layer, int64_t width) {
  const std::string from = fmt::format("single_blocks.{}.", layer),
                    to = fmt::format("single_transformer_blocks.{}.", layer);
  const char* const projections[] = {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"};
  for (int64_t i = 0; i < 4; ++i)
    names.push_back({from + "linear1", to + projections[i], Change::kNone, i * width, i < 3 ? width : 4 * width});
  names.push_back({from + "linear2", to + "proj_out"});
  names.push_back({from + "modulation.lin", to + "norm.linear"});
  names.push_back({from + "norm.query_norm.scale", to + "attn.norm_q.weight"});
  names.push_back({from + "norm.key_norm.scale", to + "attn.norm_k.weight"});
}

std::vector<OriginalModule> flux_original_names(const Config& config) {
  const int64_t width = positive(config, "num_attention_heads", 24, kFluxOriginalWidth) *
                        positive(config, "attention_head_dim", 128, kFluxOriginalWidth),
                layers = config.get_int("num_layers", 19), single_layers = config.get_int("num_single_layers", 38);
  if (layers > kFluxOriginalLayers || single_layers > kFluxOriginalLayers)
    fail("{}: num_layers and num_single_layers: expected up to {}", config.where(), kFluxOriginalLayers);
  std::vector<OriginalModule> names;
  add_flux_around(names);
  for (int64_t i = 0; i < layers; ++i) add_flux_double(names, i, width);
  for (int64_t i = 0; i < single_layers; ++i) add_flux_single(names, i, width);
  return names;
}

}  // namespace

std::vector<OriginalLayout> flux_original() {
  return {{.beginnings = {"model.diffusion_model.", ""},
           .mark = "double_blocks.0.img_attn.norm.key_norm.scale",
           .names = flux_original_names},
          {.beginnings = {""}, .mark = "transformer_blocks.0.attn.norm_added_k.weight"}};
}

}  // namespace transom
