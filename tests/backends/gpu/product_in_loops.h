// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/harness.h"

namespace transom::backend_test {

// out[m, n] = bias[n] + sum over k of (x[m, k] - zero) w[n, k] in f64; `bias` is null where there is none.
inline std::vector<double> linear_in_loops(const Tensor& x, const Tensor& w, const Tensor* bias, double zero = 0) {
  const auto rows = static_cast<size_t>(x.shape[0]), depth = static_cast<size_t>(x.shape[1]),
             columns = static_cast<size_t>(w.shape[0]);
  std::vector<double> out;
  for (size_t m = 0; m < rows; ++m)
    for (size_t n = 0; n < columns; ++n) {
      double sum = bias ? bias->values[n] : 0;
      for (size_t k = 0; k < depth; ++k) sum += (x.values[m * depth + k] - zero) * w.values[n * depth + k];
      out.push_back(sum);
    }
  return out;
}

}  // namespace transom::backend_test
