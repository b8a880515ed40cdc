// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/clap_features.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "inputs/audio/mel_filters.h"
#include "inputs/audio/spectrogram.h"

namespace transom {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 28;  // of a sound: 1 GiB

class ClapExtractor : public FeatureExtractor {
 public:
  explicit ClapExtractor(const Config& config)
      : bands_(config.get_int("feature_size", 64)), padding_(config.get_string("padding", "repeatpad")) {
    sampling_rate_ = config.get_int("sampling_rate", 48000);
    const int64_t hop = config.get_int("hop_length", 480), window = config.get_int("fft_window_size", 1024),
                  seconds = config.get_int("max_length_s", 10);
    const auto expect = [&](const char* field, int64_t value, int64_t most) {
      if (value < 1 || value > most) fail("{}: {}: expected 1 to {}, found {}", config.where(), field, most, value);
    };
    expect("sampling_rate", sampling_rate_, 1'000'000);
    expect("feature_size", bands_, 4096);
    expect("fft_window_size", window, 1 << 16);
    expect("hop_length", hop, 1 << 20);
    expect("max_length_s", seconds, 3600);
    if (window % 2 != 0) fail("{}: fft_window_size: expected an even number, found {}", config.where(), window);
    const double lowest = config.get_float("frequency_min", 0), highest = config.get_float("frequency_max", 14000);
    if (!(lowest >= 0 && lowest < highest && highest < 1e9))
      fail("{}: frequency_min and frequency_max: expected rising numbers from 0, found {} and {}", config.where(),
           lowest, highest);
    const std::string truncation = config.get_string("truncation", "fusion");
    if (truncation != "rand_trunc")
      fail("{}: truncation {} is not carried out; only rand_trunc is", config.where(), quoted(truncation));
    if (padding_ != "repeatpad" && padding_ != "repeat" && padding_ != "pad")
      fail("{}: padding: expected repeatpad, repeat or pad, found {}", config.where(), quoted(padding_));
    const int64_t samples = seconds * sampling_rate_;
    if (samples > kMostValues || samples / hop >= kMostValues / bands_)
      fail(
          "{}: max_length_s, sampling_rate, hop_length, feature_size: a sound of {} samples has more than the {} "
          "numbers that are computed",
          config.where(), samples, kMostValues);
    length_ = static_cast<size_t>(samples);
    spectrogram_.emplace(SpectrogramOptions{.window = hann_window(window, true),
                                            .hop = hop,
                                            .transform = window,
                                            .filters = mel_filters({.frequency_bins = window / 2 + 1,
                                                                    .mel_bins = bands_,
                                                                    .lowest = lowest,
                                                                    .highest = highest,
                                                                    .sampling_rate = sampling_rate_,
                                                                    .equal_area = true}),
                                            .logarithm = SpectrogramOptions::Logarithm::kDecibel});
  }

  AudioFeatures operator()(std::span<const Sound> sounds) const override {
    const int64_t frames = spectrogram_->frames_of(static_cast<int64_t>(length_));
    AudioFeatures result{"input_features", {static_cast<int64_t>(sounds.size()), 1, frames, bands_}, {}, {}};
    for (const Sound& sound : sounds) {
      const std::vector<float> levels = (*spectrogram_)(filled(sound.samples));
      result.values.insert(result.values.end(), levels.begin(), levels.end());
    }
    return result;
  }

 private:
  std::vector<float> filled(const std::vector<float>& samples) const {
    if (samples.empty()) fail("a sound without samples cannot be heard");
    std::vector<float> wave(samples.begin(),
                            samples.begin() + static_cast<ptrdiff_t>(std::min(samples.size(), length_)));
    const size_t whole = length_ / samples.size() * samples.size();  // what full repetitions fill
    const size_t repeated = padding_ == "repeat" ? length_ : padding_ == "repeatpad" ? whole : 0;
    for (size_t i = wave.size(); i < repeated; ++i) wave.push_back(samples[i % samples.size()]);
    wave.resize(length_, 0);
    return wave;
  }

  int64_t bands_;
  std::string padding_;
  size_t length_ = 0;
  std::optional<Spectrogram> spectrogram_;
};

}  // namespace

std::unique_ptr<FeatureExtractor> clap_features(const Config& config) {
  return std::make_unique<ClapExtractor>(config);
}

}  // namespace transom
