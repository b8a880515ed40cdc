// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/quantization/observer.h"

#include <algorithm>
#include <cmath>

namespace transom::onnx {
namespace {

constexpr size_t kBins = 4096;

double greatest_integer(int bits) { return std::exp2(bits - 1) - 1; }

// The least power of two that is not below `scale`.
double power_above(double scale) { return std::exp2(std::ceil(std::log2(scale))); }

}  // namespace

// The range doubles until it holds `greatest`; two bins become one each time.
void Observer::grow(double greatest) {
  if (bins_.empty()) {
    bins_.assign(kBins, 0);
    width_ = greatest / kBins;
  }
  while (greatest > width_ * kBins) {
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
    width_ *= 2;
  }
}

void Observer::add(std::span<const float> values) {
  double greatest = 0;
  for (const float value : values)
    if (std::isfinite(value)) greatest = std::max<double>(greatest, std::abs(value));
  if (greatest > 0) grow(greatest);
  greatest_ = std::max(greatest_, greatest);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    ++count_;
    if (!bins_.empty())
      ++bins_[std::min(static_cast<size_t>(std::abs(static_cast<double>(value)) / width_), kBins - 1)];
  }
}

void Observer::merge(const Observer& other) {
  count_ += other.count_;
  greatest_ = std::max(greatest_, other.greatest_);
  if (other.bins_.empty()) return;
  grow(other.width_ * kBins);
  for (size_t i = 0; i < kBins; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * other.width_;
    bins_[std::min(static_cast<size_t>(centre / width_), kBins - 1)] += other.bins_[i];
  }
}

double Observer::error_of(double scale, int bits) const {
  const double top = greatest_integer(bits);
  double error = 0;
  for (size_t i = 0; i < kBins; ++i) {
    if (bins_[i] == 0) continue;
    const double value = (static_cast<double>(i) + 0.5) * width_;
    const double rounded = std::min(std::nearbyint(value / scale), top) * scale;
    error += static_cast<double>(bins_[i]) * (value - rounded) * (value - rounded);
  }
  return error;
}

double Observer::scale(const QuantizationScheme& scheme, int bits) const {
  if (greatest_ == 0) return 1;
  const double top = greatest_integer(bits);
  double range = greatest_;
  if (scheme.method == CalibrationMethod::kPercentile) {
    constexpr double kKept = 0.9999;
    int64_t seen = 0;
    for (size_t i = 0; i < kBins; ++i) {
      seen += bins_[i];
      if (static_cast<double>(seen) < kKept * static_cast<double>(count_)) continue;
      range = std::min(greatest_, (static_cast<double>(i) + 1) * width_);
      break;
    }
  }
  const double widest = scheme.powers_of_two ? power_above(range / top) : range / top;
  if (scheme.method != CalibrationMethod::kMse) return widest;
  double best = widest, least = error_of(widest, bits);
  for (int step = 1; step <= 16; ++step) {
    const double scale = scheme.powers_of_two ? widest * std::exp2(-step) : widest * (1 - 0.05 * step);
    if (const double error = error_of(scale, bits); error < least) best = scale, least = error;
  }
  return best;
}

}  // namespace transom::onnx
