// SPDX-License-Identifier: Apache-2.0
// The range of what a layer reads, and the steps of 8 bits that lose least on it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace transom {

class InputRange {
 public:
  // Values that are not finite are passed over.
  void add(std::span<const float> values);

  struct Steps {
    float scale = 1;
    int zero_point = 0;  // q = round(x / scale) + zero_point, within -128 to 127
  };
  // Of the ranges from the whole one down to half of it, the one with the least squared error. `one_sided`: the zero
  // point is 0, or -128 where no value is negative; else it is wherever the range wants it.
  Steps steps(bool one_sided) const;

 private:
  void grow(double greatest);
  double error_of(const Steps& steps) const;
  double width_ = 0;           // of a bin
  std::vector<int64_t> bins_;  // of values from -width * bins / 2 on
  double least_ = 0, greatest_ = 0;
};

}  // namespace transom
