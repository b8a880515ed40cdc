// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/rounded_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers/half.h"
#include "base/threads/threads.h"

namespace transom {
namespace {

class RoundedMatrix : public BlockMatrix {
 public:
  RoundedMatrix(BlockLayout layout, const float* numbers, bool search)
      : BlockMatrix(std::move(layout)), search_(search) {
    const BlockLayout& l = this->layout();
    codes_.resize(static_cast<size_t>(l.rows * l.depth));
    scales_.resize(static_cast<size_t>(l.rows * l.groups()));
    if (l.has_minima) minima_.resize(scales_.size());
    parallel_for(static_cast<size_t>(l.rows), [&](size_t row) {
      for (int64_t g = 0; g < l.groups(); ++g) {
        const int64_t first = static_cast<int64_t>(row) * l.depth + g * l.group,
                      count = std::min(l.group, l.depth - g * l.group);
        round(numbers + first, count, codes_.data() + first,
              row * static_cast<size_t>(l.groups()) + static_cast<size_t>(g));
      }
    });
  }

  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const BlockLayout& l = layout();
    std::copy_n(codes_.data() + row * l.depth, l.depth, codes);
    std::copy_n(scales_.data() + row * l.groups(), l.groups(), scales);
    if (minima) std::copy_n(minima_.data() + row * l.groups(), l.groups(), minima);
  }

 private:
  void round(const float* x, int64_t count, uint8_t* codes, size_t group) {
    const int bits = layout().bits, middle = 1 << (bits - 1), last = (1 << bits) - 1;
    float least = std::numeric_limits<float>::infinity(), most = -least, largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < count; ++i) {
      finite &= std::isfinite(x[i]);
      least = std::min(least, x[i]), most = std::max(most, x[i]);
      if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
    }
    float scale, zero = static_cast<float>(middle);
    if (layout().has_minima) {
      least = std::min(least, 0.0f), most = std::max(most, 0.0f);
      scale = (most - least) / static_cast<float>(last);
      zero = scale > 0 ? -least / scale : 0;
    } else {
      scale = bits == 8 ? std::fabs(largest) / 127 : largest / -8;
    }
    if (search_ && !layout().has_minima) scale = symmetric_scale(x, count, bits);
    if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
    scales_[group] = scale;
    if (layout().has_minima) minima_[group] = finite ? least : scale;
    for (int64_t i = 0; i < count; ++i) {
      const float step = finite && scale != 0 ? std::nearbyint(x[i] / scale + zero) : static_cast<float>(middle);
      codes[i] = static_cast<uint8_t>(std::clamp(step, 0.0f, static_cast<float>(last)));
    }
  }

  bool search_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, minima_;
};

}  // namespace

float symmetric_scale(const float* x, int64_t count, int bits) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  if (bits == 8) return Float16(largest / 127);
  float best = Float16(largest / 8);
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 20; ++step) {
    const float scale = Float16(largest / 8 * (0.80f + 0.018f * static_cast<float>(step)));
    if (!(scale > 0)) continue;
    double error = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float rest = x[i] - scale * std::clamp(std::nearbyint(x[i] / scale), -8.0f, 7.0f);
      error += static_cast<double>(rest) * rest;
    }
    if (error < least) least = error, best = scale;
  }
  return best;
}

std::shared_ptr<const BlockMatrix> rounded_matrix(const float* numbers, int64_t rows, int64_t depth,
                                                  const Rounding& how) {
  BlockLayout layout{.rows = rows,
                     .depth = depth,
                     .bits = how.bits,
                     .group = how.group > 0 ? how.group : std::max<int64_t>(depth, 1),
                     .has_minima = !how.symmetric,
                     .scale_type = how.symmetric && how.search ? DType::kFloat16 : DType::kFloat32};
  return std::make_shared<RoundedMatrix>(std::move(layout), numbers, how.search);
}

}  // namespace transom
