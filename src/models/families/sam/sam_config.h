// SPDX-License-Identifier: Apache-2.0
// What SAM reads in its configuration: of the encoder of pictures, that of prompts, and the decoder of masks.
#pragma once

#include <string>
#include <vector>

#include "models/family.h"
#include "transom/layers.h"

namespace transom {

struct SamVisionConfig {
  explicit SamVisionConfig(const Config& config);
  int64_t hidden_size, output_channels, num_hidden_layers, num_attention_heads, num_channels, image_size, patch_size,
      mlp_dim, window_size, num_pos_feats;
  double layer_norm_eps, attention_dropout, initializer_range;
  std::string hidden_act;
  bool qkv_bias, use_abs_pos, use_rel_pos;
  std::vector<int64_t> global_attn_indexes;
  int64_t grid() const { return image_size / patch_size; }
};

struct SamPromptConfig {
  explicit SamPromptConfig(const Config& config);
  int64_t hidden_size, image_size, patch_size, mask_input_channels, num_point_embeddings;
  double layer_norm_eps;
  std::string hidden_act;
};

struct SamDecoderConfig {
  explicit SamDecoderConfig(const Config& config);
  int64_t hidden_size, mlp_dim, num_hidden_layers, num_attention_heads, attention_downsample_rate,
      num_multimask_outputs, iou_head_depth, iou_head_hidden_dim;
  double layer_norm_eps;
  std::string hidden_act;
};

struct SamConfig {
  explicit SamConfig(const Config& config);
  SamVisionConfig vision;
  SamPromptConfig prompt;
  SamDecoderConfig decoder;
  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = 0.02}; }
};

}  // namespace transom
