// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/input_range.h"

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

constexpr size_t kInputBins = 4096;

}  // namespace

// The range doubles on both sides until it holds `greatest`: two bins become one.
void InputRange::grow(double greatest) {
  if (bins_.empty()) {
    bins_.assign(kInputBins, 0);
    width_ = 2 * greatest / kInputBins;
  }
  while (greatest > width_ * kInputBins / 2) {
    std::vector<int64_t> wider(kInputBins, 0);
    for (size_t i = 0; i < kInputBins; ++i) wider[kInputBins / 4 + i / 2] += bins_[i];
    bins_ = std::move(wider);
    width_ *= 2;
  }
}

void InputRange::add(std::span<const float> values) {
  double least = least_, greatest = greatest_;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min<double>(least, value), greatest = std::max<double>(greatest, value);
  }
  least_ = least, greatest_ = greatest;
  const double largest = std::max(-least, greatest);
  if (largest == 0) return;
  grow(largest);
  const double inverse = 1 / width_;
  for (const float value : values) {
    if (!std::isfinite(value) || value == 0) continue;  // 0 is exact in all steps
    const auto bin = static_cast<int64_t>(std::floor(value * inverse)) + static_cast<int64_t>(kInputBins / 2);
    ++bins_[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kInputBins - 1))];
  }
}

double InputRange::error_of(const Steps& steps) const {
  double error = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    const double value = (static_cast<double>(i) + 0.5 - static_cast<double>(kInputBins / 2)) * width_;
    const double code = std::clamp(std::nearbyint(value / steps.scale) + steps.zero_point, -128.0, 127.0);
    const double rest = value - (code - steps.zero_point) * steps.scale;
    error += static_cast<double>(bins_[i]) * rest * rest;
  }
  return error;
}

InputRange::Steps InputRange::steps(bool one_sided) const {
  if (least_ == 0 && greatest_ == 0) return {};
  Steps best;
  double least = -1;
  for (int step = 0; step <= 20; ++step) {
    const double share = 1 - 0.025 * step;
    double low = least_ * share, high = greatest_ * share;
    Steps steps;
    if (one_sided && least_ < 0) {
      steps.scale = static_cast<float>(std::max(-low, high) / 127);
    } else {
      steps.scale = static_cast<float>((high - low) / 255);
      steps.zero_point = static_cast<int>(std::clamp(std::nearbyint(-128 - low / steps.scale), -128.0, 127.0));
    }
    if (!(steps.scale > 0) || !std::isfinite(1 / steps.scale)) continue;
    const double error = error_of(steps);
    if (least < 0 || error < least) least = error, best = steps;
  }
  return best;
}

}  // namespace transom
