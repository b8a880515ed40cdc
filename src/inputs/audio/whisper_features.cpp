// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/whisper_features.h"

#include <kiss_fftr.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <type_traits>

#include "base/error.h"

namespace transom {
namespace {

// Slaney's scale: linear up to 1000 Hz, logarithmic above.
constexpr double kLinear = 3.0 / 200, kKneeHertz = 1000, kKneeMel = 15;
const double kLogarithmic = std::log(6.4) / 27;

double to_mel(double hertz) {
  return hertz < kKneeHertz ? hertz * kLinear : kKneeMel + std::log(hertz / kKneeHertz) / kLogarithmic;
}
double to_hertz(double mel) {
  return mel < kKneeMel ? mel / kLinear : kKneeHertz * std::exp(kLogarithmic * (mel - kKneeMel));
}

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
    bins_ = window_ / 2 + 1;
    filters_ = slaney_mel_filters(bins_, mel_bins_, 0, 8000, sampling_rate_);
    for (int64_t i = 0; i < window_; ++i)
      hann_.push_back(static_cast<float>(
          0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window_))));
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
    const std::unique_ptr<std::remove_pointer_t<kiss_fftr_cfg>, void (*)(void*)> transform(
        kiss_fftr_alloc(static_cast<int>(window_), 0, nullptr, nullptr), std::free);
    if (!transform) fail(ErrorKind::kInternal, "no Fourier transform of {} samples could be made", window_);
    const auto length = static_cast<int64_t>(wave.size());
    std::vector<float> frame(static_cast<size_t>(window_));
    std::vector<kiss_fft_cpx> spectrum(static_cast<size_t>(bins_));
    std::vector<double> energies(static_cast<size_t>(bins_));
    std::vector<float> result(static_cast<size_t>(mel_bins_ * frames));
    float highest = -std::numeric_limits<float>::infinity();
    for (int64_t t = 0; t < frames; ++t) {
      for (int64_t i = 0; i < window_; ++i) {
        int64_t place = t * hop_ + i - window_ / 2;  // the wave is mirrored at its ends
        if (place < 0) place = -place;
        if (place >= length) place = 2 * (length - 1) - place;
        frame[static_cast<size_t>(i)] =
            wave[static_cast<size_t>(std::max<int64_t>(place, 0))] * hann_[static_cast<size_t>(i)];
      }
      kiss_fftr(transform.get(), frame.data(), spectrum.data());
      for (size_t bin = 0; bin < spectrum.size(); ++bin)
        energies[bin] = static_cast<double>(spectrum[bin].r) * spectrum[bin].r +
                        static_cast<double>(spectrum[bin].i) * spectrum[bin].i;
      for (int64_t mel = 0; mel < mel_bins_; ++mel) {
        double sum = 0;
        for (int64_t bin = 0; bin < bins_; ++bin)
          sum += filters_[static_cast<size_t>(bin * mel_bins_ + mel)] * energies[static_cast<size_t>(bin)];
        const auto value = static_cast<float>(std::log10(std::max(sum, 1e-10)));
        result[static_cast<size_t>(mel * frames + t)] = value;
        highest = std::max(highest, value);
      }
    }
    for (float& value : result) value = (std::max(value, highest - 8) + 4) / 4;
    return result;
  }

  int64_t mel_bins_, hop_, window_, bins_ = 0;
  std::vector<double> filters_;
  std::vector<float> hann_;
};

}  // namespace

std::vector<double> slaney_mel_filters(int64_t frequency_bins, int64_t mel_bins, double lowest, double highest,
                                       int64_t sampling_rate) {
  std::vector<double> edges;  // of the triangles: each ends where the next but one begins
  for (int64_t i = 0; i < mel_bins + 2; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(mel_bins + 1);
    edges.push_back(to_hertz(to_mel(lowest) + (to_mel(highest) - to_mel(lowest)) * part));
  }
  std::vector<double> filters(static_cast<size_t>(frequency_bins * mel_bins));
  for (int64_t bin = 0; bin < frequency_bins; ++bin) {
    const double hertz =
        static_cast<double>(sampling_rate / 2) * static_cast<double>(bin) / static_cast<double>(frequency_bins - 1);
    for (int64_t mel = 0; mel < mel_bins; ++mel) {
      const double low = edges[static_cast<size_t>(mel)], top = edges[static_cast<size_t>(mel + 1)],
                   high = edges[static_cast<size_t>(mel + 2)];
      const double height = std::max(0.0, std::min((hertz - low) / (top - low), (high - hertz) / (high - top)));
      filters[static_cast<size_t>(bin * mel_bins + mel)] = height * 2 / (high - low);
    }
  }
  return filters;
}

std::unique_ptr<FeatureExtractor> whisper_features(const Config& config) {
  return std::make_unique<WhisperExtractor>(config);
}

}  // namespace transom
