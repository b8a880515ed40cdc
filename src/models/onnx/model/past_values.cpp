// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/model/past_values.h"

#include <algorithm>
#include <cmath>

#include "transom/ops.h"

namespace transom::onnx {

Tensor with_heads_swapped(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

Tensor logits_at(const NamedTensors& outputs, int64_t t) {
  return cast(squeeze(slice(outputs.at("logits"), 1, t, t + 1), 1), DType::kFloat32);
}

Tensor waves(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * i)));
  return Tensor::from(values, shape);
}

bool are_near(const Tensor& a, const Tensor& b, double bound) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  if (x.size() != y.size()) return false;
  double largest = 0, apart = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(x[i])));
    const double distance = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(distance <= apart)) apart = distance;  // also where one is no number
  }
  return apart <= bound * largest;
}

}  // namespace transom::onnx
