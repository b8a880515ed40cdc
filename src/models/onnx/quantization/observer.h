// SPDX-License-Identifier: Apache-2.0
// What calibration remembers of the values of a tensor: a histogram of their absolute values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/onnx/quantization/scheme.h"

namespace transom::onnx {

class Observer {
 public:
  // Values that are not finite are passed over.
  void add(std::span<const float> values);
  // What several tensors that share a scale have seen together.
  void merge(const Observer& other);
  double greatest() const { return greatest_; }  // absolute value
  // The step of symmetric integers of `bits` bits; 1 where all values were 0.
  double scale(const QuantizationScheme& scheme, int bits) const;

 private:
  void grow(double greatest);
  double error_of(double scale, int bits) const;  // sum of squares
  double width_ = 0;                              // of a bin
  double greatest_ = 0;
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
};

}  // namespace transom::onnx
