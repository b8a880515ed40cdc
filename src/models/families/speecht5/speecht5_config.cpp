// SPDX-License-Identifier: Apache-2.0
#include "models/families/speecht5/speecht5_config.h"

#include "base/error.h"
#include "models/family.h"
#include "models/shared/speech/sized_fields.h"

namespace transom {

SpeechT5Config::SpeechT5Config(const Config& config)
    : vocab_size(sized_field(config, "vocab_size", 81, 1, 1 << 24)),
      hidden_size(sized_field(config, "hidden_size", 768)),
      encoder_layers(sized_field(config, "encoder_layers", 12, 0, 1024)),
      encoder_heads(sized_field(config, "encoder_attention_heads", 12)),
      encoder_ffn_dim(sized_field(config, "encoder_ffn_dim", 3072, 1, 1 << 20)),
      decoder_layers(sized_field(config, "decoder_layers", 6, 0, 1024)),
      decoder_heads(sized_field(config, "decoder_attention_heads", 12)),
      decoder_ffn_dim(sized_field(config, "decoder_ffn_dim", 3072, 1, 1 << 20)),
      num_mel_bins(sized_field(config, "num_mel_bins", 80)),
      prenet_layers(sized_field(config, "speech_decoder_prenet_layers", 2, 1, 64)),
      prenet_units(sized_field(config, "speech_decoder_prenet_units", 256)),
      speaker_width(sized_field(config, "speaker_embedding_dim", 512)),
      postnet_layers(sized_field(config, "speech_decoder_postnet_layers", 5, 1, 64)),
      postnet_units(sized_field(config, "speech_decoder_postnet_units", 256)),
      postnet_window(window_field(config, "speech_decoder_postnet_kernel", 5)),
      reduction_factor(sized_field(config, "reduction_factor", 2, 1, 64)),
      max_speech_positions(sized_field(config, "max_speech_positions", 4000, 1, 1 << 20)),
      max_text_positions(sized_field(config, "max_text_positions", 450, 1, 1 << 20)),
      max_relative_position(sized_field(config, "encoder_max_relative_position", 160, 1, 1 << 16)),
      padding(padding_id(config, 1).value_or(-1)),
      guided_heads(sized_field(config, "guided_attention_loss_num_heads", 2, -(1 << 16))),
      guided_attention(config.get_bool("use_guided_attention_loss", true)),
      hidden_act(config.get_string("hidden_act", "gelu")),
      encoder_layerdrop(config.get_float("encoder_layerdrop", 0.1)),
      decoder_layerdrop(config.get_float("decoder_layerdrop", 0.1)),
      positional_dropout(config.get_float("positional_dropout", 0.1)),
      hidden_dropout(config.get_float("hidden_dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0.1)),
      activation_dropout(config.get_float("activation_dropout", 0.1)),
      prenet_dropout(bounded_field(config, "speech_decoder_prenet_dropout", 0.5, 0, 0.999)),
      postnet_dropout(config.get_float("speech_decoder_postnet_dropout", 0.5)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      guided_sigma(bounded_field(config, "guided_attention_loss_sigma", 0.4, 1e-6, 1e6)),
      guided_scale(config.get_float("guided_attention_loss_scale", 10)) {
  for (const int64_t heads : {encoder_heads, decoder_heads})
    if (hidden_size % heads != 0)
      fail("{}: hidden_size: expected a multiple of the numbers of heads, {} and {}, found {}", config.where(),
           encoder_heads, decoder_heads, hidden_size);
  // Of classes that read sounds or write texts.
  for (const char* name : {"feat_extract_norm", "feat_extract_activation", "conv_dim", "conv_stride", "conv_kernel",
                           "conv_bias", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "scale_embedding"})
    if (config.has(name)) config.get_json(name);
}

}  // namespace transom
