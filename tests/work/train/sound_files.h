// SPDX-License-Identifier: Apache-2.0
// Small sounds for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace transom::test {

// A WAV file at 16 kHz of one channel: a tone of `hertz` for each part, of so many samples.
inline std::string tones(const std::vector<std::pair<double, int>>& parts) {
  std::vector<int16_t> samples;
  for (const auto& [hertz, count] : parts)
    for (int i = 0; i < count; ++i)
      samples.push_back(static_cast<int16_t>(8000 * std::sin(2 * 3.14159265358979 * hertz * i / 16000)));
  std::string file;
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
  };
  const auto data = static_cast<uint32_t>(2 * samples.size());
  file += "RIFF";
  put(36 + data, 4);
  file += "WAVEfmt ";
  put(16, 4), put(1, 2), put(1, 2), put(16000, 4), put(32000, 4), put(2, 2), put(16, 2);
  file += "data";
  put(data, 4);
  for (const int16_t sample : samples) put(static_cast<uint16_t>(sample), 2);
  return file;
}

// A speech model that is small enough to train in a test.
inline std::string small_speech_model(const std::string& architecture) {
  return R"({"model_type": "wav2vec2", "architectures": [")" + architecture + R"("], "hidden_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "conv_dim": [16, 16],
    "conv_kernel": [10, 8], "conv_stride": [5, 8], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "vocab_size": 6, "feat_extract_norm": "layer", "conv_bias": true, "do_stable_layer_norm": true,
    "classifier_proj_size": 8, "mask_time_prob": 0, "layerdrop": 0, "hidden_dropout": 0, "attention_dropout": 0,
    "activation_dropout": 0, "feat_proj_dropout": 0, "final_dropout": 0})";
}

}  // namespace transom::test
