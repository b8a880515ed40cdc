// SPDX-License-Identifier: Apache-2.0
// With the rows and columns of h in reverse order, h = L L'. Turned back, L is an upper factor R of h = R R', and
// h^-1 = R'^-1 R^-1: U is L^-1 turned back. In f64.
#include "models/compression/gptq/cholesky.h"

#include <algorithm>
#include <cmath>

#include "base/threads/threads.h"

namespace transom {
namespace {

constexpr int64_t kBlock = 64;  // columns that are finished before the rows below take them

// x y over n numbers, in four sums so that processors add at once.
double dot(const double* x, const double* y, int64_t n) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; ++j) sums[j] += x[i + j] * y[i + j];
  for (; i < n; ++i) sums[0] += x[i] * y[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The lower triangle of a becomes L; false where a is not positive definite.
bool factorise(std::vector<double>& a, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    const auto finish = [&](int64_t i, int64_t last) {  // columns [begin, last) of row i
      double* row = a.data() + i * n;
      for (int64_t j = begin; j < last; ++j)
        row[j] = (row[j] - dot(row, a.data() + j * n, j)) / a[static_cast<size_t>(j * n + j)];
    };
    for (int64_t i = begin; i < end; ++i) {
      finish(i, i);
      double* row = a.data() + i * n;
      const double rest = row[i] - dot(row, row, i);
      if (!(rest > 0) || !std::isfinite(rest)) return false;
      row[i] = std::sqrt(rest);
    }
    parallel_for(static_cast<size_t>(n - end), [&](size_t i) { finish(end + static_cast<int64_t>(i), end); });
  }
  return true;
}

}  // namespace

std::vector<float> inverse_factor(const std::vector<float>& h, int64_t n) {
  std::vector<double> a(h.rbegin(), h.rend());  // both orders reversed
  if (!factorise(a, n)) return {};
  // Column j of L^-1 is the solution x of L x = e_j; kept as a row, and turned back at once.
  std::vector<float> u(static_cast<size_t>(n * n));
  parallel_for(static_cast<size_t>(n), [&](size_t column) {
    const auto j = static_cast<int64_t>(column);
    std::vector<double> x(static_cast<size_t>(n));
    for (int64_t i = j; i < n; ++i) {
      const double* row = a.data() + i * n;
      const double known = i == j ? 1.0 : -dot(row + j, x.data() + j, i - j);
      x[static_cast<size_t>(i)] = known / row[i];
      u[static_cast<size_t>((n - 1 - i) * n + (n - 1 - j))] = static_cast<float>(x[static_cast<size_t>(i)]);
    }
  });
  return u;
}

}  // namespace transom
