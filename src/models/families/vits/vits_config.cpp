// SPDX-License-Identifier: Apache-2.0
#include "models/families/vits/vits_config.h"

#include <algorithm>

#include "base/error.h"
#include "models/family.h"
#include "models/shared/speech/sized_fields.h"

namespace transom {

VitsConfig::VitsConfig(const Config& config)
    : vocab_size(sized_field(config, "vocab_size", 38, 1, 1 << 24)),
      hidden_size(sized_field(config, "hidden_size", 192)),
      num_hidden_layers(sized_field(config, "num_hidden_layers", 6, 0, 1024)),
      num_attention_heads(sized_field(config, "num_attention_heads", 2)),
      window_size(sized_field(config, "window_size", 4, 1, 1024)),
      ffn_dim(sized_field(config, "ffn_dim", 768, 1, 1 << 20)),
      ffn_kernel_size(sized_field(config, "ffn_kernel_size", 3, 1, 1024)),
      flow_size(sized_field(config, "flow_size", 192, 2)),
      spectrogram_bins(sized_field(config, "spectrogram_bins", 513)),
      num_speakers(sized_field(config, "num_speakers", 1, 1, 1 << 24)),
      speaker_embedding_size(sized_field(config, "speaker_embedding_size", 0, 0)),
      duration_layers(sized_field(config, "depth_separable_num_layers", 3, 0, 10)),
      duration_bins(sized_field(config, "duration_predictor_flow_bins", 10, 1, 999)),
      duration_kernel(window_field(config, "duration_predictor_kernel_size", 3)),
      duration_flows(sized_field(config, "duration_predictor_num_flows", 4, 1, 1024)),
      duration_channels(sized_field(config, "duration_predictor_filter_channels", 256)),
      prior_flows(sized_field(config, "prior_encoder_num_flows", 4, 0, 1024)),
      wavenet_layers(sized_field(config, "prior_encoder_num_wavenet_layers", 4, 1, 1024)),
      posterior_layers(sized_field(config, "posterior_encoder_num_wavenet_layers", 16, 1, 1024)),
      wavenet_kernel(window_field(config, "wavenet_kernel_size", 5)),
      wavenet_dilation(sized_field(config, "wavenet_dilation_rate", 1, 1, 64)),
      sampling_rate(sized_field(config, "sampling_rate", 16000, 1, 768000)),
      padding(padding_id(config, -1).value_or(-1)),
      use_bias(config.get_bool("use_bias", true)),
      stochastic_durations(config.get_bool("use_stochastic_duration_prediction", true)),
      hidden_act(config.get_string("hidden_act", "relu")),
      hidden_dropout(config.get_float("hidden_dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0.1)),
      activation_dropout(config.get_float("activation_dropout", 0.1)),
      layerdrop(config.get_float("layerdrop", 0.1)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      tail_bound(bounded_field(config, "duration_predictor_tail_bound", 5, 1e-3, 1e6)),
      speaking_rate(bounded_field(config, "speaking_rate", 1, 1e-3, 1e3)),
      noise_scale(bounded_field(config, "noise_scale", 0.667, 0, 1e3)),
      noise_scale_duration(bounded_field(config, "noise_scale_duration", 0.8, 0, 1e3)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      decoder(config, flow_size, {8, 8, 2, 2}, {16, 16, 4, 4}) {
  if (hidden_size % num_attention_heads != 0)
    fail("{}: hidden_size: expected a multiple of num_attention_heads {}, found {}", config.where(),
         num_attention_heads, hidden_size);
  if (flow_size % 2 != 0) fail("{}: flow_size: expected an even number, found {}", config.where(), flow_size);
  if (num_speakers > 1 && speaker_embedding_size == 0)
    fail("{}: speaker_embedding_size: expected a number above 0 for {} speakers, found 0", config.where(),
         num_speakers);
  double reach = 1;  // of the last dilations, which grow as powers
  for (int64_t i = 1; i < duration_layers; ++i) reach *= static_cast<double>(duration_kernel);
  double wave_reach = 1;
  for (int64_t i = 1; i < std::max(wavenet_layers, posterior_layers); ++i)
    wave_reach = std::min(wave_reach * static_cast<double>(wavenet_dilation), 1e9);
  if (reach > 1e6 || wave_reach > 1e6)
    fail("{}: expected convolutions that reach at most {} moments, by their kernels, layers and dilations",
         config.where(), 1'000'000);
  sized_field(config, "depth_separable_channels", 2, 2, 2);  // which is what is drawn for each token
  // Of training, which Transformers does not offer either.
  for (const char* name : {"duration_predictor_dropout", "wavenet_dropout"}) config.get_float(name, 0);
  decoder.speaker_width = speaker_embedding_size;
  decoder.last_bias = false;
}

}  // namespace transom
