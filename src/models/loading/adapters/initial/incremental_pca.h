// SPDX-License-Identifier: Apache-2.0
// Principal components of rows that come a part at a time (Ross et al., "Incremental learning for robust visual
// tracking", 2008), as PEFT's IncrementalPCA computes them, with whole decompositions in f64.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

class IncrementalPca {
 public:
  explicit IncrementalPca(int64_t components) : count_(components) {}

  // Rows [rows, width], at least as many as there are components; the width is that of the first ones.
  void fit(const std::vector<float>& rows, int64_t width);

  bool is_fitted() const { return seen_ > 0; }
  int64_t count() const { return count_; }
  int64_t width() const { return width_; }
  // [count, width], of which each has its largest number above 0.
  const std::vector<float>& components() const { return components_; }
  const std::vector<double>& singular_values() const { return values_; }  // [count], descending
  // The part of the variance of all rows that each component has.
  const std::vector<double>& explained() const { return explained_; }

 private:
  int64_t count_, width_ = 0, seen_ = 0;
  std::vector<float> components_;
  std::vector<double> values_, explained_;
  std::vector<double> mean_, squares_;  // of each column: the mean, and the sum of squared distances from it
};

}  // namespace transom
