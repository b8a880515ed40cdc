// SPDX-License-Identifier: Apache-2.0
// What RT-DETR and its second version read in their configurations.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/family.h"
#include "models/nn/losses/varifocal_loss.h"

namespace transom {

inline constexpr int64_t kRTDetrMostDenoising = 4096;  // of num_denoising, and boxes of a picture where it is not 0

struct RTDetrConfig {
  // `second`: RT-DETR v2, whose places are drawn in by a factor of their own, or taken without interpolation.
  RTDetrConfig(const Config& config, bool second);

  bool second;
  int64_t num_labels, num_queries;
  double initializer_range, layer_norm_eps, batch_norm_eps;
  double first_bias;  // of new layers that tell classes: the logit of a rare class

  // The hybrid encoder. `levels`: how many maps it reads and gives.
  int64_t encoder_hidden_dim, encoder_layers, encoder_attention_heads, encoder_ffn_dim, levels, csp_width;
  std::vector<int64_t> encode_proj_layers;  // maps whose places look at each other
  double temperature;
  bool has_eval_size;
  std::string encoder_activation_function, activation_function;

  // The decoder, which looks at `num_feature_levels` maps.
  int64_t d_model, decoder_layers, decoder_attention_heads, decoder_ffn_dim, num_feature_levels, decoder_n_points;
  std::string decoder_activation_function;
  double offset_scale;
  bool nearest_places, learn_initial_query;
  double dropout, attention_dropout, activation_dropout;
  bool normalize_before;  // of the encoder's layers

  // Training.
  int64_t num_denoising;
  double label_noise_ratio, box_noise_scale;
  bool auxiliary_loss;
  VarifocalWeights weights;

  std::vector<int64_t> feat_strides;
  std::optional<std::array<int64_t, 2>> anchor_image_size;  // the only extents of pictures outside of training
};

}  // namespace transom
