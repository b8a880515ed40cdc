// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gptq/gptq.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/numbers/mt19937.h"
#include "files/blocks/rounded_matrix.h"
#include "models/compression/gptq/cholesky.h"

namespace transom {
namespace {

// Sums of products of inputs that depend on each other.
std::vector<float> products_of(int64_t depth, int64_t count, Mt19937& random) {
  std::vector<float> x(static_cast<size_t>(count * depth)), h(static_cast<size_t>(depth * depth));
  random.fill_normal(x, 0, 1);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 1; k < depth; ++k)
      x[static_cast<size_t>(i * depth + k)] += 0.9f * x[static_cast<size_t>(i * depth + k - 1)];
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < depth; ++j)
      for (int64_t k = 0; k < depth; ++k)
        h[static_cast<size_t>(j * depth + k)] +=
            x[static_cast<size_t>(i * depth + j)] * x[static_cast<size_t>(i * depth + k)] / static_cast<float>(count);
  return h;
}

double output_error(const BlockMatrix& matrix, const std::vector<float>& w, const std::vector<float>& h) {
  const auto depth = static_cast<size_t>(matrix.layout().depth);
  double error = 0;
  std::vector<float> row(depth);
  for (size_t r = 0; r < static_cast<size_t>(matrix.layout().rows); ++r) {
    matrix.dequantise_row(static_cast<int64_t>(r), row.data());
    for (size_t k = 0; k < depth; ++k) row[k] -= w[r * depth + k];
    for (size_t i = 0; i < depth; ++i)
      for (size_t j = 0; j < depth; ++j) error += static_cast<double>(row[i]) * h[i * depth + j] * row[j];
  }
  return error;
}

TEST(InverseFactor, MakesTheInverse) {
  Mt19937 random(1);
  for (const int64_t n : {1, 5, 64, 130}) {
    std::vector<float> h = products_of(n, 3 * n, random);
    for (int64_t i = 0; i < n; ++i) h[static_cast<size_t>(i * n + i)] += 0.1f;
    const std::vector<float> u = inverse_factor(h, n);
    ASSERT_EQ(u.size(), h.size());
    double worst = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;  // of h U'U
        for (int64_t k = 0; k < n; ++k) {
          double inverse = 0;
          for (int64_t l = 0; l <= std::min(k, j); ++l)
            inverse += static_cast<double>(u[static_cast<size_t>(l * n + k)]) * u[static_cast<size_t>(l * n + j)];
          sum += h[static_cast<size_t>(i * n + k)] * inverse;
        }
        worst = std::max(worst, std::abs(sum - (i == j)));
      }
    EXPECT_LT(worst, 1e-3) << n;
    for (int64_t i = 1; i < n; ++i) EXPECT_EQ(u[static_cast<size_t>(i * n)], 0) << "upper";
  }
  EXPECT_TRUE(inverse_factor({1, 2, 2, 1}, 2).empty()) << "not positive definite";
}

TEST(Gptq, OutputsChangeLessThanByRounding) {
  Mt19937 random(2);
  const int64_t rows = 19, depth = 96;
  std::vector<float> w(static_cast<size_t>(rows * depth));
  random.fill_normal(w, 0, 0.05);
  const std::vector<float> h = products_of(depth, 400, random);
  for (const int64_t group : {int64_t{32}, depth}) {
    const auto nearest = rounded_matrix(w.data(), rows, depth, {.bits = 4, .group = group, .search = true});
    const double plain = output_error(*nearest, w, h);
    for (const bool act_order : {false, true}) {
      const auto made = gptq_matrix(w, rows, depth, h, {.bits = 4, .group = group, .act_order = act_order});
      EXPECT_LT(output_error(*made, w, h), 0.6 * plain) << group << " " << act_order;
      EXPECT_EQ(made->layout().order.empty(), !act_order);
    }
  }
}

TEST(Gptq, InputsThatAreAlwaysZeroCountNothing) {
  Mt19937 random(4);
  const int64_t depth = 32;
  std::vector<float> w(static_cast<size_t>(2 * depth)), h = products_of(depth, 100, random);
  random.fill_normal(w, 0, 1);
  for (int64_t k = 0; k < depth; ++k) h[static_cast<size_t>(7 * depth + k)] = h[static_cast<size_t>(k * depth + 7)] = 0;
  const auto made = gptq_matrix(w, 2, depth, h, {.bits = 8, .group = depth});
  std::vector<float> row(static_cast<size_t>(depth));
  made->dequantise_row(0, row.data());
  EXPECT_EQ(row[7], 0);
  EXPECT_LT(output_error(*made, w, h), 1e-2);
}

}  // namespace
}  // namespace transom
