// SPDX-License-Identifier: Apache-2.0
// What the detectors of the DETR kind read in their configurations.
#pragma once

#include <string>

#include "models/family.h"
#include "models/nn/losses/detection_loss.h"

namespace transom {

// What boxes are matched by, and what the losses count.
DetectionWeights detection_weights(const Config& config);

struct DetrConfig {
  // `norms_first`: layers norm what they read, as those of Table Transformer do, rather than what they give.
  DetrConfig(const Config& config, bool norms_first);

  int64_t d_model, num_queries, num_labels;
  int64_t encoder_layers, encoder_attention_heads, encoder_ffn_dim;
  int64_t decoder_layers, decoder_attention_heads, decoder_ffn_dim;
  std::string activation_function;
  double dropout, attention_dropout, activation_dropout, init_std;
  bool auxiliary_loss, learned_positions, norms_first;
  DetectionWeights weights;
};

}  // namespace transom
