// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/speecht5_features.h"

#include <bit>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/known_keys.h"
#include "inputs/audio/mel_filters.h"

namespace transom {
namespace {

int64_t speecht5_number(const Config& config, const char* name, int64_t otherwise, int64_t most) {
  const int64_t value = config.get_int(name, otherwise);
  if (value < 1 || value > most)
    fail("{}: {}: expected a number from 1 to {}, found {}", config.where(), name, most, value);
  return value;
}

SpectrogramOptions speecht5_options(const Config& config, int64_t rate) {
  constexpr int64_t kMostMilliseconds = 10'000, kMostSamples = 1 << 16;
  const int64_t frame = speecht5_number(config, "win_length", 64, kMostMilliseconds) * rate / 1000,
                hop = speecht5_number(config, "hop_length", 16, kMostMilliseconds) * rate / 1000;
  if (frame < 2 || hop < 1 || frame > kMostSamples)
    fail("{}: win_length and hop_length: expected frames of 2 to {} samples, found {} and {}", config.where(),
         kMostSamples, frame, hop);
  const double lowest = config.get_float("fmin", 80), highest = config.get_float("fmax", 7600);
  if (!(lowest >= 0 && lowest < highest && highest < 1e9))
    fail("{}: fmin and fmax: expected rising numbers from 0, found {} and {}", config.where(), lowest, highest);
  const double least = config.get_float("mel_floor", 1e-10);
  if (!(least > 0 && least < 1e9)) fail("{}: mel_floor: expected a positive number, found {}", config.where(), least);
  if (config.get_string("win_function", "hann_window") != "hann_window")
    fail("{}: win_function {} is not carried out; only hann_window is", config.where(),
         quoted(config.get_string("win_function", "")));
  const auto transform = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(frame)));
  return {.window = hann_window(frame, true),
          .hop = hop,
          .transform = transform,
          .energies = false,
          .filters = mel_filters({.frequency_bins = transform / 2 + 1,
                                  .mel_bins = speecht5_number(config, "num_mel_bins", 80, 4096),
                                  .lowest = lowest,
                                  .highest = highest,
                                  .sampling_rate = rate,
                                  .equal_area = true}),
          .least = least,
          .logarithm = SpectrogramOptions::Logarithm::kDecimal};
}

}  // namespace

SpeechT5Features SpeechT5Features::read(const std::filesystem::path& directory) {
  const Config config = Config::read(directory / "preprocessor_config.json");
  const std::string type = config.get_string("feature_extractor_type", "");
  if (type != "SpeechT5FeatureExtractor")
    fail("{}: feature_extractor_type: expected SpeechT5FeatureExtractor, found {}", config.where(), quoted(type));
  SpeechT5Features spectra(config);
  constexpr KnownKey kKeys[] = {
      {"processor_class"}, {"do_normalize"},  // of sounds that are read, not made
      {"feature_size"},    {"padding_side"}, {"padding_value"}, {"return_attention_mask"}, {"frame_signal_scale", "1"},
      {"reduction_factor"}};  // the model has its own
  check_known_keys(json_of(config), config.where(), kKeys,
                   [&](const std::string& key) { return was_read(config, key); });
  return spectra;
}

SpeechT5Features::SpeechT5Features(const Config& config)
    : sampling_rate_(speecht5_number(config, "sampling_rate", 16000, 768'000)),
      spectrogram_(speecht5_options(config, sampling_rate_)) {}

}  // namespace transom
