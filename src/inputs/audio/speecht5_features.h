// SPDX-License-Identifier: Apache-2.0
// The spectra that SpeechT5 learns to make: decimal logarithms of mel bands.
#pragma once

#include <filesystem>
#include <vector>

#include "files/config/config.h"
#include "inputs/audio/sound.h"
#include "inputs/audio/spectrogram.h"

namespace transom {

class SpeechT5Features {
 public:
  // Of a model's directory, whose preprocessor_config.json is of SpeechT5FeatureExtractor.
  static SpeechT5Features read(const std::filesystem::path& directory);
  explicit SpeechT5Features(const Config& config);

  int64_t sampling_rate() const { return sampling_rate_; }
  int64_t bands() const { return spectrogram_.bands(); }
  // [frames, bands] of a sound of that rate.
  std::vector<float> operator()(const Sound& sound) const { return spectrogram_(sound.samples); }

 private:
  int64_t sampling_rate_;
  Spectrogram spectrogram_;
};

}  // namespace transom
