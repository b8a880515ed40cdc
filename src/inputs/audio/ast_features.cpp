// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/ast_features.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "inputs/audio/mel_filters.h"
#include "inputs/audio/spectrogram.h"

namespace transom {
namespace {

constexpr int64_t kFrame = 400, kTransform = 512;  // samples: 25 ms of 16 kHz, and the power of two above
constexpr double kLeast = 1.192092955078125e-07;   // of Kaldi: what float32 tells from nothing beside 1

class AstExtractor : public FeatureExtractor {
 public:
  explicit AstExtractor(const Config& config)
      : mel_bins_(config.get_int("num_mel_bins", 128)),
        frames_(config.get_int("max_length", 1024)),
        normalizes_(config.get_bool("do_normalize", true)),
        mean_(config.get_float("mean", -4.2677393)),
        deviation_(config.get_float("std", 4.5689974)) {
    sampling_rate_ = config.get_int("sampling_rate", 16000);
    if (sampling_rate_ != 16000)  // with another the versions of Transformers with and without torchaudio differ
      fail("{}: sampling_rate {} is not carried out; only 16000 is", config.where(), sampling_rate_);
    if (mel_bins_ < 1 || mel_bins_ > 4096 || frames_ < 1 || frames_ > 1 << 20)
      fail("{}: num_mel_bins and max_length: expected 1 to 4096 and 1 to {}, found {} and {}", config.where(), 1 << 20,
           mel_bins_, frames_);
    if (mel_bins_ * frames_ > 1 << 28)  // 1 GiB
      fail("{}: num_mel_bins and max_length: expected a product of at most {}, found {} and {}", config.where(),
           1 << 28, mel_bins_, frames_);
    if (normalizes_ && !(std::abs(deviation_) > 0))
      fail("{}: std: expected a number other than 0, found {}", config.where(), deviation_);
    spectrogram_.emplace(SpectrogramOptions{.window = hann_window(kFrame, false),
                                            .hop = 160,
                                            .transform = kTransform,
                                            .centred = false,
                                            .without_mean = true,
                                            .preemphasis = 0.97,
                                            .filters = mel_filters({.frequency_bins = kTransform / 2 + 1,
                                                                    .mel_bins = mel_bins_,
                                                                    .lowest = 20,
                                                                    .scale = MelScale::kKaldi,
                                                                    .straight_on_scale = true}),
                                            .least = kLeast,
                                            .logarithm = SpectrogramOptions::Logarithm::kNatural});
  }

  AudioFeatures operator()(std::span<const Sound> sounds) const override {
    AudioFeatures result{"input_values", {static_cast<int64_t>(sounds.size()), frames_, mel_bins_}, {}, {}};
    for (const Sound& sound : sounds) {
      if (sound.samples.size() < static_cast<size_t>(kFrame))
        fail("a sound of {} samples: expected at least {}, one frame of the filter bank; pad the sound",
             sound.samples.size(), kFrame);
      std::vector<float> levels = (*spectrogram_)(sound.samples, frames_);
      levels.resize(static_cast<size_t>(frames_ * mel_bins_), 0);  // silence is not padded as it would be heard
      if (normalizes_)
        for (float& level : levels) level = (level - static_cast<float>(mean_)) / static_cast<float>(deviation_ * 2);
      result.values.insert(result.values.end(), levels.begin(), levels.end());
    }
    return result;
  }

 private:
  int64_t mel_bins_, frames_;
  bool normalizes_;
  double mean_, deviation_;
  std::optional<Spectrogram> spectrogram_;
};

}  // namespace

std::unique_ptr<FeatureExtractor> ast_features(const Config& config) { return std::make_unique<AstExtractor>(config); }

}  // namespace transom
