// SPDX-License-Identifier: Apache-2.0
// SpeechT5 (Ao et al., 2022): what its parts are made by. B batch, S tokens of the text, T steps of the decoder, D
// hidden, H heads, d head size, M bands of a spectrum.
#pragma once

#include <string>

#include "files/config/config.h"
#include "transom/layers.h"

namespace transom {

struct SpeechT5Config {
  explicit SpeechT5Config(const Config& config);
  int64_t vocab_size, hidden_size, encoder_layers, encoder_heads, encoder_ffn_dim, decoder_layers, decoder_heads,
      decoder_ffn_dim, num_mel_bins, prenet_layers, prenet_units, speaker_width, postnet_layers, postnet_units,
      postnet_window, reduction_factor, max_speech_positions, max_text_positions, max_relative_position, padding,
      guided_heads;
  bool guided_attention;
  std::string hidden_act;
  double encoder_layerdrop, decoder_layerdrop, positional_dropout, hidden_dropout, attention_dropout,
      activation_dropout, prenet_dropout, postnet_dropout, layer_norm_eps, initializer_range, guided_sigma,
      guided_scale;

  Linear::Options new_weights() const { return {.deviation = initializer_range}; }
};

}  // namespace transom
