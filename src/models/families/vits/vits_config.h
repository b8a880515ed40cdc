// SPDX-License-Identifier: Apache-2.0
// VITS (Kim et al., 2021): what its parts are made by. B batch, T tokens, S frames, D hidden, F channels of the flow.
#pragma once

#include <string>

#include "files/config/config.h"
#include "models/shared/speech/hifi_gan.h"
#include "transom/layers.h"

namespace transom {

struct VitsConfig {
  explicit VitsConfig(const Config& config);
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, window_size, ffn_dim, ffn_kernel_size,
      flow_size, spectrogram_bins, num_speakers, speaker_embedding_size, duration_layers, duration_bins,
      duration_kernel, duration_flows, duration_channels, prior_flows, wavenet_layers, posterior_layers, wavenet_kernel,
      wavenet_dilation, sampling_rate;
  int64_t padding;  // a token whose vector is not trained; -1: none
  bool use_bias, stochastic_durations;
  std::string hidden_act;
  double hidden_dropout, attention_dropout, activation_dropout, layerdrop, layer_norm_eps, tail_bound, speaking_rate,
      noise_scale, noise_scale_duration, initializer_range;
  HifiGanConfig decoder;

  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }
};

// A norm over the channels of each moment: [B, C, T].
class VitsChannelNorm {
 public:
  VitsChannelNorm(const Scope& scope, int64_t channels, double epsilon) : norm_(scope, channels, epsilon) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    return permute(norm_(permute(x, {0, 2, 1}), context), {0, 2, 1});
  }

 private:
  LayerNorm norm_;
};

}  // namespace transom
