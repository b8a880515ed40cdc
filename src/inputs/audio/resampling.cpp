// SPDX-License-Identifier: Apache-2.0
// Resampling by a windowed sinc, one kernel for each place of an output sample between two input samples.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "inputs/audio/sound.h"

namespace transom {
namespace {

constexpr double kZeroCrossings = 6, kRolloff = 0.99;

}  // namespace

Sound resampled(const Sound& sound, int64_t sampling_rate) {
  if (sound.sampling_rate < 1 || sampling_rate < 1)
    fail("resampling: expected positive sampling rates, found {} and {}", sound.sampling_rate, sampling_rate);
  if (sound.sampling_rate == sampling_rate) return sound;
  const int64_t divisor = std::gcd(sound.sampling_rate, sampling_rate);
  const int64_t from = sound.sampling_rate / divisor, to = sampling_rate / divisor;
  const double band = kRolloff * static_cast<double>(std::min(from, to));
  const auto width = static_cast<int64_t>(std::ceil(kZeroCrossings * static_cast<double>(from) / band));
  const int64_t taps = 2 * width + from;
  if (taps > (int64_t{1} << 24) / to)
    fail("resampling from {} to {} samples a second: the ratio {} / {} needs too large kernels", sound.sampling_rate,
         sampling_rate, to, from);

  std::vector<float> kernels(static_cast<size_t>(to * taps));
  for (int64_t phase = 0; phase < to; ++phase)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const double place = static_cast<double>(tap - width) / static_cast<double>(from) -
                           static_cast<double>(phase) / static_cast<double>(to);
      const double t = std::clamp(place * band, -kZeroCrossings, kZeroCrossings);
      const double cosine = std::cos(t * std::numbers::pi / kZeroCrossings / 2), angle = t * std::numbers::pi;
      const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
      kernels[static_cast<size_t>(phase * taps + tap)] =
          static_cast<float>(sinc * cosine * cosine * band / static_cast<double>(from));
    }

  const auto length = static_cast<int64_t>(sound.samples.size());
  Sound result{{}, sampling_rate};
  result.samples.resize(static_cast<size_t>((to * length + from - 1) / from));
  for (int64_t i = 0; i < static_cast<int64_t>(result.samples.size()); ++i) {
    const float* kernel = kernels.data() + i % to * taps;
    const int64_t begin = i / to * from - width;  // of the input, what lies outside being silent
    double sum = 0;
    for (int64_t tap = std::max<int64_t>(0, -begin); tap < std::min(taps, length - begin); ++tap)
      sum += static_cast<double>(kernel[tap] * sound.samples[static_cast<size_t>(begin + tap)]);
    result.samples[static_cast<size_t>(i)] = static_cast<float>(sum);
  }
  return result;
}

}  // namespace transom
