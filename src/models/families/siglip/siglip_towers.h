// SPDX-License-Identifier: Apache-2.0
// The towers of SigLIP (Zhai et al., 2023): pre-norm encoders of texts and of pictures, both ways round. B batch,
// T tokens or P patches, D hidden.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/families/siglip/siglip_patches.h"
#include "models/family.h"
#include "models/shared/vision_inputs.h"
#include "transom/layers.h"

namespace transom {

struct SiglipTowerConfig {
  explicit SiglipTowerConfig(const Config& config);
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
  double attention_dropout, layer_norm_eps, initializer_range;
  std::string hidden_act;
};

struct SiglipTextConfig : SiglipTowerConfig {
  explicit SiglipTextConfig(const Config& config);
  int64_t vocab_size, max_position_embeddings, projection_size;
};

struct SiglipVisionConfig : SiglipTowerConfig {
  // `flexible`: pictures of any form, as patches (siglip_patches.h).
  explicit SiglipVisionConfig(const Config& config, bool flexible = false);
  bool flexible;
  int64_t num_channels;
  Extents image_size{}, patch_size;  // the first where pictures have one size
  int64_t num_patches = 0;           // of the square that positions are made for, where they have any
  bool has_head;
};

class SiglipLayer {
 public:
  SiglipLayer(const Scope& scope, const SiglipTowerConfig& c);
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  LayerNorm layer_norm1_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  LayerNorm layer_norm2_;
  Linear fc1_, fc2_;
  Dropout attention_dropout_;
};
std::vector<SiglipLayer> siglip_layers(const Scope& scope, const SiglipTowerConfig& c);  // encoder.layers.0 ...

// One vector of all patches: what a learned query attends to, and a feed-forward layer behind it.
class SiglipPoolingHead {
 public:
  SiglipPoolingHead(const Scope& scope, const SiglipTowerConfig& c);
  // [B, P, D] -> [B, D]; `mask` hides patches, additive [B, 1, 1, P] or empty
  Tensor operator()(const Tensor& patches, const Tensor& mask, ForwardContext& context) const;

 private:
  int64_t heads_;
  std::string activation_;
  std::shared_ptr<Parameter> probe_, in_weight_, in_bias_;
  Linear out_proj_;
  LayerNorm layernorm_;
  Linear fc1_, fc2_;
};

struct SiglipTowerOutput {
  Tensor last_hidden_state, pooler_output;  // [B, T, D], [B, E]; the second empty without a head
  std::vector<Tensor> hidden_states;
};

class SiglipTextTower {
 public:
  SiglipTextTower(const Scope& scope, const SiglipTextConfig& c);
  SiglipTowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  int64_t max_position_embeddings_;
  Embedding token_embedding_, position_embedding_;
  std::vector<SiglipLayer> layers_;
  LayerNorm final_layer_norm_;
  Linear head_;
};

class SiglipVisionTower {
 public:
  SiglipVisionTower(const Scope& scope, const SiglipVisionConfig& c);
  static std::vector<std::string> input_names(bool flexible);
  SiglipTowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor embedded(const NamedTensors& inputs, ForwardContext& context) const;
  Tensor positions(Extents size, const ForwardContext& context) const;

  SiglipVisionConfig c_;
  std::optional<PatchEmbeddings> patch_embedding_;
  std::optional<SiglipPatches> patches_;  // of flexible towers, in place of the first and the next
  std::shared_ptr<Parameter> position_embedding_;
  std::vector<SiglipLayer> layers_;
  LayerNorm post_layernorm_;
  std::unique_ptr<SiglipPoolingHead> head_;
};

}  // namespace transom
