// SPDX-License-Identifier: Apache-2.0
// The tower of Llama 3.2 Vision (Grattafiori et al., "The Llama 3 herd of models", 2024): the tiles of a picture with
// vectors of its form, layers over all of them, whose states between are kept, and gated layers behind. N pictures,
// t tiles, P patches of a tile and its class token, D hidden.
#pragma once

#include <memory>
#include <vector>

#include "models/shared/vision_inputs.h"
#include "transom/layers.h"

namespace transom {

struct MllamaVisionConfig {
  explicit MllamaVisionConfig(const Config& config);
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_global_layers, attention_heads, num_channels,
      image_size, patch_size, max_num_tiles;
  int64_t forms = 0, places = 0;  // supported_aspect_ratios; P
  std::vector<int64_t> kept;      // intermediate_layers_indices, from 0 on
  double norm_eps, initializer_range;
  std::string hidden_act;
  int64_t width() const { return hidden_size * (1 + static_cast<int64_t>(kept.size())); }
};

class MllamaVisionLayer {
 public:
  MllamaVisionLayer(const Scope& scope, const MllamaVisionConfig& c, bool gated);
  // [N, L, D], additive [N, 1, L, L]
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;

 private:
  Tensor gated(const std::shared_ptr<Parameter>& gate, const Tensor& x) const;
  std::string path_;
  int64_t heads_;
  std::string activation_;
  std::shared_ptr<Parameter> gate_attn_, gate_ffn_;  // null: none
  Linear q_proj_, k_proj_, v_proj_, o_proj_, fc1_, fc2_;
  LayerNorm input_layernorm_, post_attention_layernorm_;
};

class MllamaTower {
 public:
  MllamaTower(const Scope& scope, const MllamaVisionConfig& c);
  // pixel_values [N, t, C, H, W], i64 aspect_ratio_ids [N] from 1 on (0: no picture) and aspect_ratio_mask [N, t] (0:
  // no tile) -> [N, t, P, D (1 + kept)]
  Tensor operator()(const Tensor& pixels, const Tensor& ids, const Tensor& mask, ForwardContext& context) const;

 private:
  // A vector of each tile by the form of its picture.
  struct TileVectors {
    TileVectors(const Scope& scope, const MllamaVisionConfig& c);
    std::shared_ptr<Parameter> gate;
    Embedding embedding;
    Tensor operator()(const Tensor& x, const Tensor& ids, const ForwardContext& context) const;  // [N, t, P, D]
  };
  Tensor with_positions(const Tensor& x, const Tensor& ids, const ForwardContext& context) const;
  Tensor through(const std::vector<MllamaVisionLayer>& layers, Tensor x, const Tensor& mask, std::vector<Tensor>* kept,
                 ForwardContext& context) const;
  Tensor bias_of(const Tensor& mask, int64_t length) const;

  MllamaVisionConfig c_;
  std::shared_ptr<Parameter> class_embedding_;
  PatchEmbeddings patch_embedding_;
  std::shared_ptr<Parameter> positions_gate_, positions_;
  Embedding tile_positions_;
  TileVectors before_, behind_;
  LayerNorm layernorm_pre_, layernorm_post_;
  std::vector<MllamaVisionLayer> layers_, global_layers_;
};

}  // namespace transom
