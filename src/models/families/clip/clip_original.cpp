// SPDX-License-Identifier: Apache-2.0
#include "models/families/clip/clip_original.h"

#include <array>

#include "base/error.h"
#include "files/config/config.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

constexpr const char *kAlone = "CLIPTextModel", *kProjected = "CLIPTextModelWithProjection";
constexpr const char *kWidth = "hidden_size", *kPlaces = "text_model.embeddings.position_embedding.weight";

// Numbers that are counted, and what only the whole of CLIP needs.
const std::vector<OriginalModule> kUnused = {
    {"text_model.embeddings.position_ids", ""}, {"logit_scale", ""}, {"attn_mask", ""}};

std::vector<OriginalModule> projected_names(const Config&) { return kUnused; }
std::vector<OriginalModule> names_alone(const Config&) {
  std::vector<OriginalModule> names = kUnused;
  names.push_back({"text_projection", ""});
  return names;
}

std::vector<OriginalModule> open_clip_names(const Config& config, bool is_projected) {
  const int64_t width = positive(config, kWidth, 512, 1 << 20);
  std::vector<OriginalModule> names = kUnused;
  names.push_back({"positional_embedding", kPlaces});
  names.push_back({"token_embedding", "text_model.embeddings.token_embedding"});
  names.push_back({"ln_final", "text_model.final_layer_norm"});
  if (is_projected) names.push_back({"text_projection", "text_projection.weight", Change::kTransposed});
  else names.push_back({"text_projection", ""});
  names.push_back({"transformer.resblocks", ""});  // those behind the last layer that the configuration has
  const int64_t layers = positive(config, "num_hidden_layers", 12, 1000);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string from = fmt::format("transformer.resblocks.{}.", i),
                      to = fmt::format("text_model.encoder.layers.{}.", i);
    static constexpr std::array<const char*, 3> kProjections = {"q_proj", "k_proj", "v_proj"};
    for (size_t part = 0; part < kProjections.size(); ++part)
      for (const char* kind : {"weight", "bias"})
        names.push_back({fmt::format("{}attn.in_proj_{}", from, kind),
                         fmt::format("{}self_attn.{}.{}", to, kProjections[part], kind), Change::kNone,
                         static_cast<int64_t>(part) * width, width});
    names.push_back({from + "attn.out_proj", to + "self_attn.out_proj"});
    names.push_back({from + "ln_1", to + "layer_norm1"});
    names.push_back({from + "ln_2", to + "layer_norm2"});
    names.push_back({from + "mlp.c_fc", to + "mlp.fc1"});
    names.push_back({from + "mlp.c_proj", to + "mlp.fc2"});
  }
  return names;
}

}  // namespace

std::vector<OriginalLayout> clip_text_original() {
  const std::vector<std::string> first = {"cond_stage_model.transformer.", "conditioner.embedders.0.transformer."};
  std::vector<std::string> first_alone = first;
  first_alone.push_back("text_encoders.clip_l.transformer.");
  const std::vector<std::string> open = {"cond_stage_model.model.", "conditioner.embedders.1.model.",
                                         "conditioner.embedders.0.model."};
  return {
      {.beginnings = first_alone, .mark = kPlaces, .width = kWidth, .names = names_alone, .architecture = kAlone},
      {.beginnings = first, .mark = kPlaces, .width = kWidth, .names = projected_names, .architecture = kProjected},
      // Of Stable Diffusion 3, which reads the first encoder's vector as it is.
      {.beginnings = {"text_encoders.clip_l.transformer."},
       .mark = kPlaces,
       .width = kWidth,
       .names = names_alone,
       .architecture = kProjected,
       .identity = "text_projection.weight",
       .identity_width = kWidth},
      {.beginnings = open,
       .mark = "positional_embedding",
       .width = kWidth,
       .names = [](const Config& config) { return open_clip_names(config, false); },
       .architecture = kAlone},
      {.beginnings = open,
       .mark = "positional_embedding",
       .width = kWidth,
       .names = [](const Config& config) { return open_clip_names(config, true); },
       .architecture = kProjected},
      {.beginnings = {"text_encoders.clip_g.transformer."},
       .mark = kPlaces,
       .width = kWidth,
       .names = projected_names,
       .architecture = kProjected},
      {.beginnings = {""}, .mark = kPlaces, .width = kWidth, .names = names_alone, .architecture = kAlone},
  };
}

}  // namespace transom
