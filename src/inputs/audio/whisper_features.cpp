// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/whisper_features.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "inputs/audio/mel_filters.h"
#include "inputs/audio/spectrogram.h"

namespace transom {
namespace {

class WhisperExtractor : public FeatureExtractor {
 public:
  explicit WhisperExtractor(const Config& config)
      : mel_bins_(config.get_int("feature_size", 80)),
        hop_(config.get_int("hop_length", 160)),
        window_(config.get_int("n_fft", 400)) {
    padding_value_ = static_cast<float>(config.get_float("padding_value", 0));
    sampling_rate_ = config.get_int("sampling_rate", 16000);
    const int64_t seconds = config.get_int("chunk_length", 30);
    const auto expect = [&](const char* field, int64_t value, int64_t most) {
      if (value < 1 || value > most) fail("{}: {}: expected 1 to {}, found {}", config.where(), field, most, value);
    };
    expect("sampling_rate", sampling_rate_, 1'000'000);
    expect("chunk_length", seconds, 3600);
    expect("feature_size", mel_bins_, 4096);
    expect("n_fft", window_, 1 << 16);
    expect("hop_length", hop_, window_);
    if (window_ % 2 != 0) fail("{}: n_fft: expected an even number, found {}", config.where(), window_);
    if (config.get_float("dither", 0) != 0)
      fail("{}: dither = {} is not carried out; only 0 is", config.where(), config.get_float("dither", 0));
    fixed_length_ = seconds * sampling_rate_;
    if (fixed_length_ <= window_ / 2)
      fail("{}: chunk_length: {} samples are too few for a window of {}", config.where(), fixed_length_, window_);
    const int64_t bins = window_ / 2 + 1;
    spectrogram_.emplace(SpectrogramOptions{
        .window = hann_window(window_, true),
        .hop = hop_,
        .transform = window_,
        .filters = mel_filters(
            {.frequency_bins = bins, .mel_bins = mel_bins_, .sampling_rate = sampling_rate_, .equal_area = true}),
        .logarithm = SpectrogramOptions::Logarithm::kDecimal});
  }

  AudioFeatures operator()(std::span<const Sound> sounds) const override {
    const int64_t frames = fixed_length_ / hop_;
    AudioFeatures result{"input_features", {static_cast<int64_t>(sounds.size()), mel_bins_, frames}, {}, {}};
    for (const Sound& sound : sounds) {
      std::vector<float> wave = sound.samples;
      wave.resize(static_cast<size_t>(fixed_length_), padding_value_);
      const std::vector<float> rows = log_mel(wave, frames);
      result.values.insert(result.values.end(), rows.begin(), rows.end());
    }
    return result;
  }

  AudioFeatures whole(const Sound& sound) const override {
    if (static_cast<int64_t>(sound.samples.size()) <= fixed_length_) return (*this)(std::span(&sound, 1));
    const int64_t frames = static_cast<int64_t>(sound.samples.size()) / hop_;
    return {"input_features", {1, mel_bins_, frames}, log_mel(sound.samples, frames), {}};
  }

 private:
  // [mel bins, frames]: log10 of the energies, nothing more than 8 below the highest, scaled to about [-1, 1].
  std::vector<float> log_mel(const std::vector<float>& wave, int64_t frames) const {
    const std::vector<float> levels = (*spectrogram_)(wave, frames);
    float highest = -std::numeric_limits<float>::infinity();
    for (const float level : levels) highest = std::max(highest, level);
    std::vector<float> result(static_cast<size_t>(mel_bins_ * frames));
    for (int64_t t = 0; t < frames; ++t)
      for (int64_t mel = 0; mel < mel_bins_; ++mel)
        result[static_cast<size_t>(mel * frames + t)] =
            (std::max(levels[static_cast<size_t>(t * mel_bins_ + mel)], highest - 8) + 4) / 4;
    return result;
  }

  int64_t mel_bins_, hop_, window_;
  std::optional<Spectrogram> spectrogram_;
};

}  // namespace

std::unique_ptr<FeatureExtractor> whisper_features(const Config& config) {
  return std::make_unique<WhisperExtractor>(config);
}

}  // namespace transom
