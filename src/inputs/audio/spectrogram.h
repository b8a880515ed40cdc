// SPDX-License-Identifier: Apache-2.0
// The spectrum of a sound, frame by frame, through a bank of filters: what most feature extractors begin with.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace transom {

struct SpectrogramOptions {
  enum class Logarithm { kNone, kNatural, kDecimal, kDecibel };

  std::vector<double> window;   // as long as a frame
  int64_t hop = 160;            // from the beginning of a frame to that of the next
  int64_t transform = 0;        // samples that are transformed, zeros behind the frame; even
  bool centred = true;          // frames stand around their moment, and the wave is mirrored at its ends
  bool energies = true;         // squares of the magnitudes
  bool without_mean = false;    // of each frame
  double preemphasis = 0;       // the part of the sample before that each sample loses
  std::vector<double> filters;  // [transform / 2 + 1, bands]
  double least = 1e-10;         // of what a filter gives
  Logarithm logarithm = Logarithm::kNone;
};

// What spreads frames softly: 0 at the beginning, and at the end unless the window is a period of a longer wave.
std::vector<double> hann_window(int64_t length, bool periodic);

class Spectrogram {
 public:
  explicit Spectrogram(SpectrogramOptions options);
  int64_t bands() const { return bands_; }
  int64_t frames_of(int64_t samples) const;
  // [frames, bands], of at most so many frames. Computed in float64.
  std::vector<float> operator()(std::span<const float> wave,
                                int64_t most_frames = std::numeric_limits<int64_t>::max()) const;

 private:
  SpectrogramOptions o_;
  int64_t frame_, bands_;
  std::vector<std::pair<size_t, size_t>> reach_;  // of each filter: the bins that it looks at
};

}  // namespace transom
