// SPDX-License-Identifier: Apache-2.0
// What Mask2Former reads in its configuration.
#pragma once

#include <string>
#include <vector>

#include "models/family.h"
#include "models/nn/losses/mask_loss.h"

namespace transom {

inline constexpr int64_t kMask2FormerLevels = 3;  // maps that the queries look at, whatever the configuration says

struct Mask2FormerConfig {
  explicit Mask2FormerConfig(const Config& config);

  int64_t feature_size, mask_feature_size, hidden_dim, num_attention_heads, num_queries, num_labels;
  int64_t encoder_layers, encoder_feedforward_dim;  // of the pixel decoder
  int64_t predictions, dim_feedforward;             // of the decoder: one before its first layer, and one behind each
  std::string activation_function;
  double dropout, init_std, init_xavier_std;
  bool pre_norm, enforce_input_projection;
  int64_t finer_maps;  // to which the pixel decoder goes on from the three
  MaskWeights weights;
};

// backbone_config, or the Swin that is meant where there is none.
Config mask2former_backbone_config(const Config& config);

}  // namespace transom
