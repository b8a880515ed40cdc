// SPDX-License-Identifier: Apache-2.0
#include "models/families/clip/clip_original.h"

#include <array>

#include "base/error.h"
#include "files/config/config.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

constexpr const char *kClipTextAlone = "CLIPTextModel", *kClipTextProjected = "CLIPTextModelWithProjection";
constexpr const char *kClipTextWidth = "hidden_size",
                     *kClipTextPlaces = "text_model.embeddings.position_embedding.weight";

// Numbers that are counted, and what only the whole of CLIP needs.
const std::vector<OriginalModule> kUnusedOfClip = {
    {"text_model.embeddings.position_ids", ""}, {"logit_scale", ""}, {"attn_mask", ""}};

std::vector<OriginalModule> clip_projected_names(const Config&) { return kUnusedOfClip; }
std::vector<OriginalModule> clip_names_alone(const Config&) {
  std::vector<OriginalModule> names = kUnusedOfClip;
  names.push_back({"text_projection", ""});
  return names;
}

std::vector<OriginalModule> open_clip_names(const Config& config, bool is_projected) {
  const int64_t width = positive(config, kClipTextWidth, 512, 1 << 20);
  std::vector<OriginalModule> names = kUnusedOfClip;
  names.push_back({"positional_embedding", kClipTextPlaces});
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
      {.beginnings = first_alone,
       .mark = kClipTextPlaces,
       .width = kClipTextWidth,
       .names = clip_names_alone,
       .architecture = kClipTextAlone},
      {.beginnings = first,
       .mark = kClipTextPlaces,
       .width = kClipTextWidth,
       .names = clip_projected_names,
       .architecture = kClipTextProjected},
      // Of Stable Diffusion 3, which reads the first encoder's vector as it is.
      {.beginnings = {"text_encoders.clip_l.transformer."},
       .mark = kClipTextPlaces,
       .width = kClipTextWidth,
       .names = clip_names_alone,
       .architecture = kClipTextProjected,
       .identity = "text_projection.weight",
       .identity_width = kClipTextWidth},
      {.beginnings = open,
       .mark = "positional_embedding",
       .width = kClipTextWidth,
       .names = [](const Config& config) { return open_clip_names(config, false); },
       .architecture = kClipTextAlone},
      {.beginnings = open,
       .mark = "positional_embedding",
       .width = kClipTextWidth,
       .names = [](const Config& config) { return open_clip_names(config, true); },
       .architecture = kClipTextProjected},
      {.beginnings = {"text_encoders.clip_g.transformer."},
       .mark = kClipTextPlaces,
       .width = kClipTextWidth,
       .names = clip_projected_names,
       .architecture = kClipTextProjected},
      {.beginnings = {""},
       .mark = kClipTextPlaces,
       .width = kClipTextWidth,
       .names = clip_names_alone,
       .architecture = kClipTextAlone},
  };
}

}  // namespace transom
