// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/rates.h"

#include <algorithm>
#include <cmath>

namespace transom {
namespace {

constexpr double kVectorShare = 0.5;  // of the peak of vector lanes, which also convert and scale what they read

}  // namespace

double joined(double a, double b, double norm) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (larger <= 0) return 0;
  return larger * std::pow(1 + std::pow(smaller / larger, norm), 1 / norm);
}

void join(double& a, double& b, double norm) {
  const double sum = a + b;
  if (sum <= 0) return;
  const double factor = joined(a, b, norm) / sum;
  a *= factor, b *= factor;
}

WorkSeconds seconds_of(const Work& work, const DeviceModel& device, const JobPrecision& precision, Maturity maturity,
                       bool training, double tensor) {
  const FittedRates& rates = device.fitted;
  double share = training ? rates.matrix : rates.matrix_inference;
  if (precision.engine == "fp8" || precision.engine == "int8" || precision.engine == "fp4")
    share *= rates.matrix_narrow;
  // Half-saturation in columns, of which tensor parallel leaves each device a part, and in rows.
  const double width = work.width / std::sqrt(tensor);
  share /= 1 + rates.half_width / width + rates.half_width / 4 / work.rows;
  const double peak = device.peak(precision.engine);
  // Products of activations stay in 16 bits.
  const double attention_peak = std::min(peak, device.peak(device.peaks.count("bf16") ? "bf16" : "fp16"));
  const double attention_share = (training ? rates.matrix : rates.matrix_inference) * 0.6;
  WorkSeconds result;
  double weights = work.weight_flops / (peak * share);
  // A few rows leave a matrix unit nearly idle: kernels for them multiply in vector lanes, whose peak is that of fp32.
  if (const auto vector = device.peaks.find("fp32"); vector != device.peaks.end() && !device.memory_on_chip)
    weights = std::min(weights, work.weight_flops / (vector->second * kVectorShare));
  result.matrix = (weights + work.attention_flops / (attention_peak * attention_share)) / tensor;
  const double passes = rates.passes * (maturity == Maturity::kEager ? 1.5 : 1);
  result.vector = work.elements * passes * 2 * precision.activation_bytes / (device.bandwidth * rates.memory) / tensor;
  return result;
}

}  // namespace transom
