// SPDX-License-Identifier: Apache-2.0
// The towers of CLIP (Radford et al., 2021), which segmenters and detectors of any text look through, too: a causal
// text encoder and a ViT. B batch, T tokens or 1 + P patches, D hidden.
#pragma once

#include <string>
#include <vector>

#include "models/family.h"
#include "models/shared/vision_inputs.h"

namespace transom {

// The part of a CLIP configuration, or the whole one of a model of one tower. Older files say all of it once more in
// <part>_dict, which then counts.
Config clip_part(const Config& config, const std::string& part);

// In what families differ from CLIP that look through its towers.
struct CLIPOptions {
  const char* first_norm = "pre_layrnorm";  // of pictures, as CLIP's files have it
  bool any_size = false;                    // positions follow the picture's extents, though nobody asks for it
  bool end_is_highest = false;              // a text ends at its highest id, whatever eos_token_id says
  const char* text_defaults = "{}";         // JSON: what fields are that a configuration lacks
  const char* vision_defaults = "{}";
};

struct CLIPTowerConfig {
  CLIPTowerConfig(const Config& config, bool vision);
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, projection_dim;
  double attention_dropout, layer_norm_eps, factor, initializer_range;
  std::string hidden_act;

  // Deviations of new weights.
  double width_deviation() const;
  double deep_deviation() const;
  Linear::Options projection() const { return {.bias = false, .deviation = width_deviation()}; }
};

struct CLIPTextConfig : CLIPTowerConfig {
  explicit CLIPTextConfig(const Config& config);
  int64_t vocab_size, max_position_embeddings, eos_token_id;
};

struct CLIPVisionConfig : CLIPTowerConfig {
  explicit CLIPVisionConfig(const Config& config);
  int64_t num_channels;
  Extents image_size, patch_size;
};

class CLIPEncoderLayer {
 public:
  // `norms_after`: what a layer gives is normed, rather than what it reads.
  CLIPEncoderLayer(const Scope& scope, const CLIPTowerConfig& c, bool norms_after = false);
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  Tensor attended(const Tensor& x, const Tensor& mask, ForwardContext& context) const;
  Tensor transformed(const Tensor& x, ForwardContext& context) const;

  std::string path_;
  int64_t heads_;
  bool norms_after_;
  std::string activation_;
  LayerNorm layer_norm1_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  LayerNorm layer_norm2_;
  Linear fc1_, fc2_;
  Dropout attention_dropout_;
};

struct CLIPTowerOutput {
  Tensor last_hidden_state, pooler_output;  // [B, T, D], [B, D]
  std::vector<Tensor> hidden_states;  // the embeddings, then what each layer gives; of texts where it is asked for
};

class CLIPTextTower {
 public:
  CLIPTextTower(const Scope& scope, const CLIPTextConfig& c, CLIPOptions options = {});
  CLIPTowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor at_end_of_text(const Tensor& hidden, const Tensor& ids) const;

  CLIPTextConfig c_;
  bool end_is_highest_;
  Embedding token_embedding_, position_embedding_;
  std::vector<CLIPEncoderLayer> layers_;
  LayerNorm final_layer_norm_;
};

class CLIPVisionTower {
 public:
  CLIPVisionTower(const Scope& scope, const CLIPVisionConfig& c, CLIPOptions options = {});
  CLIPTowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;
  // What the last layer gives, all of it as pooler_output has its first token.
  Tensor normed(const Tensor& hidden, ForwardContext& context) const { return post_layernorm_(hidden, context); }

 private:
  Tensor positions(Extents size, const ForwardContext& context) const;

  CLIPVisionConfig c_;
  bool any_size_;
  Extents grid_;
  std::shared_ptr<Parameter> class_embedding_;
  PatchEmbeddings patch_embedding_;
  std::shared_ptr<Parameter> position_embedding_;
  LayerNorm pre_layrnorm_;
  std::vector<CLIPEncoderLayer> layers_;
  LayerNorm post_layernorm_;
};

// The arguments of the tower of texts; those of them that a model was given.
const std::vector<std::string>& clip_text_names();
NamedTensors clip_text_inputs(const NamedTensors& inputs);

Tensor to_unit_length(const Tensor& x);
// How much texts and pictures agree whose vectors are of length 1, [texts, E] and [images, E]: [texts, images].
Tensor logits_of_agreement(const Tensor& text_embeds, const Tensor& image_embeds, const Tensor& logit_scale,
                           const ForwardContext& context);
// logits_per_image, logits_per_text, text_embeds, image_embeds, and the loss of pairs where it is asked for.
NamedTensors agreement_outputs(const Tensor& text_embeds, const Tensor& image_embeds, const Tensor& logit_scale,
                               const ForwardContext& context);

// Both towers, and projections that are trained to agree.
class CLIPTowers {
 public:
  CLIPTowers(const Config& config, const Scope& scope, CLIPOptions options = {});

  struct Agreement {
    CLIPTowerOutput text, image;
    Tensor text_embeds, image_embeds;  // of length 1, [texts, E] and [images, E]
    Tensor logits_per_text;            // [texts, images]
  };
  Agreement operator()(const NamedTensors& inputs, ForwardContext& context) const;
  // logits_per_image, logits_per_text, text_embeds, image_embeds, and the loss of pairs where it is asked for.
  NamedTensors outputs(const NamedTensors& inputs, ForwardContext& context) const;

  const CLIPTextConfig text_config;
  const CLIPVisionConfig vision_config;
  const CLIPTextTower text_model;
  const CLIPVisionTower vision_model;
  const Linear text_projection, visual_projection;

 private:
  std::shared_ptr<Parameter> logit_scale_;
};

// What records of families of two towers state: the head of both, and their inputs, by the parts of the configuration.
FamilyHead clip_head();
FamilyInputs clip_text_record_inputs();
FamilyInputs clip_image_record_inputs();
FamilyInputs clip_record_inputs();

}  // namespace transom
