// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/mel_filters.h"

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

constexpr double kLinear = 3.0 / 200, kKneeHertz = 1000, kKneeMel = 15;
const double kLogarithmic = std::log(6.4) / 27;

double to_mel(double hertz, MelScale scale) {
  switch (scale) {
    case MelScale::kHtk:
      return 2595 * std::log10(1 + hertz / 700);
    case MelScale::kKaldi:
      return 1127 * std::log(1 + hertz / 700);
    case MelScale::kSlaney:
      break;
  }
  return hertz < kKneeHertz ? hertz * kLinear : kKneeMel + std::log(hertz / kKneeHertz) / kLogarithmic;
}

double to_hertz(double mel, MelScale scale) {
  switch (scale) {
    case MelScale::kHtk:
      return 700 * (std::pow(10, mel / 2595) - 1);
    case MelScale::kKaldi:
      return 700 * (std::exp(mel / 1127) - 1);
    case MelScale::kSlaney:
      break;
  }
  return mel < kKneeMel ? mel / kLinear : kKneeHertz * std::exp(kLogarithmic * (mel - kKneeMel));
}

}  // namespace

std::vector<double> mel_filters(const MelFilters& f) {
  const double least = to_mel(f.lowest, f.scale), most = to_mel(f.highest, f.scale);
  std::vector<double> edges;  // of the triangles: each ends where the next but one begins
  for (int64_t i = 0; i < f.mel_bins + 2; ++i) {
    const double mel = least + (most - least) * (static_cast<double>(i) / static_cast<double>(f.mel_bins + 1));
    edges.push_back(f.straight_on_scale ? mel : to_hertz(mel, f.scale));
  }
  std::vector<double> filters(static_cast<size_t>(f.frequency_bins * f.mel_bins));
  for (int64_t bin = 0; bin < f.frequency_bins; ++bin) {
    const double hertz =
        static_cast<double>(f.sampling_rate / 2) * static_cast<double>(bin) / static_cast<double>(f.frequency_bins - 1);
    const double place = f.straight_on_scale ? to_mel(hertz, f.scale) : hertz;
    for (int64_t mel = 0; mel < f.mel_bins; ++mel) {
      const double low = edges[static_cast<size_t>(mel)], top = edges[static_cast<size_t>(mel + 1)],
                   high = edges[static_cast<size_t>(mel + 2)];
      const double height = std::max(0.0, std::min((place - low) / (top - low), (high - place) / (high - top)));
      filters[static_cast<size_t>(bin * f.mel_bins + mel)] = f.equal_area ? height * 2 / (high - low) : height;
    }
  }
  return filters;
}

}  // namespace transom
