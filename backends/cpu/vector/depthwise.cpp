// SPDX-License-Identifier: Apache-2.0
// Rows of depthwise convolutions with the channels last, a register of channels at a time. What a window's row sees is
// loaded once for all results of a tile. Terms are added in the order of the window, those in the padding left out,
// whichever tile a result belongs to.
#include "cpu/vector/lanes.h"
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// kResults results from result `first` on, of the channels from c on. kInside: their windows see no padding at the
// sides.
template <size_t kTaps, size_t kResults, bool kInside>
inline void tile(float* y, const DepthwiseRow& r, size_t first, size_t c) {
  const ptrdiff_t column = static_cast<ptrdiff_t>(first) - r.low;
  // Places of one register of channels lie too far apart for the processor to see that they follow each other.
  for (size_t i = 0; r.ahead && i < kResults; ++i) __builtin_prefetch(r.ahead + (first + i) * r.channels + c);
  Vector sums[kResults] = {};
  for (size_t row = 0; row < r.rows; ++row) {
    if (!r.x[row]) continue;
    const float *x = r.x[row] + column * static_cast<ptrdiff_t>(r.channels) + c,
                *w = r.w + row * kTaps * r.channels + c;
    Vector taps[kTaps];
    TRANSOM_UNROLL
    for (size_t k = 0; k < kTaps; ++k) taps[k] = load_lanes(w + k * r.channels).value;
    TRANSOM_UNROLL
    for (size_t i = 0; i < kResults + kTaps - 1; ++i) {
      const ptrdiff_t at = column + static_cast<ptrdiff_t>(i);
      if (!kInside && (at < 0 || at >= static_cast<ptrdiff_t>(r.columns))) continue;
      const Vector seen = load_lanes(x + i * r.channels).value;
      TRANSOM_UNROLL
      for (size_t k = 0; k < kTaps; ++k)
        if (i >= k && i - k < kResults) sums[i - k] = seen * taps[k] + sums[i - k];
    }
  }
  TRANSOM_UNROLL
  for (size_t i = 0; i < kResults; ++i) store_lanes(y + (first + i) * r.channels + c, sums[i]);
}

// Tiles of kResults from `first` on, the last of which ends with the row: results of two tiles are made twice.
template <size_t kTaps, size_t kResults>
inline void tiles(float* y, const DepthwiseRow& r, size_t c) {
  for (size_t i = 0; i < r.results; i += kResults) {
    const size_t first = i + kResults > r.results ? r.results - kResults : i;
    const ptrdiff_t column = static_cast<ptrdiff_t>(first) - r.low;
    const ptrdiff_t end = column + static_cast<ptrdiff_t>(kResults + kTaps - 1);
    if (column >= 0 && end <= static_cast<ptrdiff_t>(r.columns)) tile<kTaps, kResults, true>(y, r, first, c);
    else tile<kTaps, kResults, false>(y, r, first, c);
  }
}

template <size_t kTaps>
void row_of(float* y, const DepthwiseRow& r) {
  for (size_t i = 0; i < r.channels; i += kWidth) {
    const size_t c = i + kWidth > r.channels ? r.channels - kWidth : i;
    if (r.results >= 7) tiles<kTaps, 7>(y, r, c);
    else if (r.results >= 3) tiles<kTaps, 3>(y, r, c);
    else tiles<kTaps, 1>(y, r, c);
  }
}

// Any window and dilation, one result at a time.
void any_row(float* y, const DepthwiseRow& r) {
  for (size_t i = 0; i < r.channels; i += kWidth) {
    const size_t c = i + kWidth > r.channels ? r.channels - kWidth : i;
    for (size_t result = 0; result < r.results; ++result) {
      Vector sum = {};
      for (size_t row = 0; row < r.rows; ++row)
        for (size_t k = 0; r.x[row] && k < r.taps; ++k) {
          const ptrdiff_t at = static_cast<ptrdiff_t>(result + k * r.dilation) - r.low;
          if (at < 0 || at >= static_cast<ptrdiff_t>(r.columns)) continue;
          const Vector seen = load_lanes(r.x[row] + static_cast<size_t>(at) * r.channels + c).value;
          sum = seen * load_lanes(r.w + (row * r.taps + k) * r.channels + c).value + sum;
        }
      store_lanes(y + result * r.channels + c, sum);
    }
  }
}

void depthwise_row(float* y, const DepthwiseRow& r) {
  if (r.dilation != 1) any_row(y, r);
  else if (r.taps == 3) row_of<3>(y, r);
  else if (r.taps == 5) row_of<5>(y, r);
  else if (r.taps == 7) row_of<7>(y, r);
  else any_row(y, r);
}

}  // namespace

void fill_depthwise(VectorKernels& kernels) { kernels.depthwise_row = depthwise_row; }

}  // namespace transom::cpu::TRANSOM_LEVEL
