// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/spectrogram.h"

#include <kissfft.hh>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace transom {
namespace {

// A place outside of the wave is that of its mirror image.
int64_t mirrored(int64_t place, int64_t length) {
  if (length == 1) return 0;
  const int64_t period = 2 * (length - 1);
  place = (place % period + period) % period;
  return std::min(place, period - place);
}

double level_of(double value, SpectrogramOptions::Logarithm logarithm) {
  switch (logarithm) {
    case SpectrogramOptions::Logarithm::kNatural:
      return std::log(value);
    case SpectrogramOptions::Logarithm::kDecimal:
      return std::log10(value);
    case SpectrogramOptions::Logarithm::kDecibel:
      return 10 * std::log10(std::max(value, 1e-10));
    case SpectrogramOptions::Logarithm::kNone:
      break;
  }
  return value;
}

}  // namespace

std::vector<double> hann_window(int64_t length, bool periodic) {
  const auto period = static_cast<double>(periodic ? length : std::max<int64_t>(length - 1, 1));
  std::vector<double> window;
  for (int64_t i = 0; i < length; ++i)
    window.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / period));
  return window;
}

Spectrogram::Spectrogram(SpectrogramOptions options)
    : o_(std::move(options)), frame_(static_cast<int64_t>(o_.window.size())) {
  const int64_t bins = o_.transform / 2 + 1;
  if (frame_ < 1 || o_.hop < 1 || o_.transform < frame_ || o_.transform % 2 != 0 || o_.transform > 1 << 20 ||
      o_.filters.empty() || static_cast<int64_t>(o_.filters.size()) % bins != 0)
    fail(
        "a spectrogram: expected a window of 1 to {} samples, a hop of at least 1, and an even transform, found {}, {}",
        o_.transform, frame_, o_.hop);
  bands_ = static_cast<int64_t>(o_.filters.size()) / bins;
  for (int64_t band = 0; band < bands_; ++band) {
    size_t first = static_cast<size_t>(bins), end = 0;
    for (int64_t bin = 0; bin < bins; ++bin)
      if (o_.filters[static_cast<size_t>(bin * bands_ + band)] != 0) {
        first = std::min(first, static_cast<size_t>(bin));
        end = static_cast<size_t>(bin) + 1;
      }
    reach_.emplace_back(first, end);
  }
}

int64_t Spectrogram::frames_of(int64_t samples) const {
  if (o_.centred) return samples < 1 ? 0 : 1 + (samples + frame_ / 2 * 2 - frame_) / o_.hop;
  return samples < frame_ ? 0 : 1 + (samples - frame_) / o_.hop;
}

std::vector<float> Spectrogram::operator()(std::span<const float> wave, int64_t most_frames) const {
  const auto length = static_cast<int64_t>(wave.size());
  const int64_t frames = std::min(frames_of(length), most_frames);
  const auto size = static_cast<size_t>(frame_), half = static_cast<size_t>(o_.transform / 2);
  kissfft<double> transform(half, false);
  std::vector<double> frame(2 * half);
  std::vector<std::complex<double>> spectrum(half + 1);
  std::vector<double> heights(half + 1);
  std::vector<float> result;
  result.reserve(static_cast<size_t>(std::max<int64_t>(frames, 0) * bands_));
  for (int64_t t = 0; t < frames; ++t) {
    const int64_t begin = t * o_.hop - (o_.centred ? frame_ / 2 : 0);
    for (int64_t i = 0; i < frame_; ++i)
      frame[static_cast<size_t>(i)] = wave[static_cast<size_t>(mirrored(begin + i, length))];
    if (o_.without_mean) {
      const double mean = std::accumulate(frame.begin(), frame.begin() + frame_, 0.0) / static_cast<double>(frame_);
      for (size_t i = 0; i < size; ++i) frame[i] -= mean;
    }
    if (o_.preemphasis != 0) {
      for (size_t i = size; i-- > 1;) frame[i] -= o_.preemphasis * frame[i - 1];
      frame[0] *= 1 - o_.preemphasis;
    }
    for (size_t i = 0; i < size; ++i) frame[i] *= o_.window[i];
    transform.transform_real(frame.data(), spectrum.data());
    spectrum[half] = spectrum[0].imag();  // both are real, and stand in one place
    spectrum[0] = spectrum[0].real();
    for (size_t bin = 0; bin <= half; ++bin)
      heights[bin] = o_.energies ? std::norm(spectrum[bin]) : std::abs(spectrum[bin]);
    for (int64_t band = 0; band < bands_; ++band) {
      const auto& [first, end] = reach_[static_cast<size_t>(band)];
      double sum = 0;
      for (size_t bin = first; bin < end; ++bin)
        sum += o_.filters[bin * static_cast<size_t>(bands_) + static_cast<size_t>(band)] * heights[bin];
      result.push_back(static_cast<float>(level_of(std::max(sum, o_.least), o_.logarithm)));
    }
  }
  return result;
}

}  // namespace transom
