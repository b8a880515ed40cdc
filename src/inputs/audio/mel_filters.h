// SPDX-License-Identifier: Apache-2.0
// Banks of triangular filters over the frequencies of a spectrum.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

enum class MelScale {
  kSlaney,  // linear up to 1000 Hz, logarithmic above
  kHtk,
  kKaldi
};

struct MelFilters {
  int64_t frequency_bins = 0, mel_bins = 0;
  double lowest = 0, highest = 8000;  // hertz
  int64_t sampling_rate = 16000;
  MelScale scale = MelScale::kSlaney;
  bool equal_area = false;         // each triangle is as high as it is narrow
  bool straight_on_scale = false;  // the sides are straight on the mel scale, not in hertz
};

// [frequency bins, mel bins]. The filters are equally wide on their scale; the frequencies run from 0 to half of the
// sampling rate.
std::vector<double> mel_filters(const MelFilters& filters);

}  // namespace transom
