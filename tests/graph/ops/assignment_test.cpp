// SPDX-License-Identifier: Apache-2.0
// The exact assignment: values of scipy 1.x's linear_sum_assignment, and random matrices against all permutations.
#include "graph/ops/rows/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/numbers/mt19937.h"
#include "support/test_names.h"
#include "transom/device.h"

namespace transom {
namespace {

using Rows = std::vector<int64_t>;

Rows assigned(const std::vector<float>& cost, int64_t rows, int64_t columns, std::vector<int64_t> counted = {}) {
  if (counted.empty()) counted.assign(static_cast<size_t>(columns), 1);
  const Tensor mask = cast(Tensor::from(counted, {1, columns}), DType::kBool);
  return linear_sum_assignment(Tensor::from(cost, {1, rows, columns}), mask).to_vector<int64_t>();
}

class Assignment : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};

TEST_P(Assignment, IsThatOfScipy) {
  const std::vector<float> tall{-3.2f, -5.3f, -1.0f, 1.7f,  4.5f,  0.4f, -2.2f, -3.1f,
                                3.0f,  6.5f,  1.1f,  -4.9f, -3.8f, 6.4f, 0.8f};
  EXPECT_EQ(assigned(tall, 5, 3), (Rows{4, 0, 3}));
  const std::vector<float> wide{-6.9f, -0.3f, -4.7f, -2.5f, -2.0f, -2.9f, 2.2f, -0.3f,
                                -2.4f, 1.6f,  3.3f,  -6.6f, -1.0f, -3.9f, -0.7f};
  EXPECT_EQ(assigned(wide, 3, 5), (Rows{0, 2, -1, 1, -1}));
  const std::vector<float> square{-5.2f, 0.1f,  -0.2f, -1.2f, -4.2f, -1.6f, -4.4f, -5.4f,
                                  0.9f,  -4.4f, 4.7f,  2.9f,  -8.0f, 1.1f,  -4.4f, 0.1f};
  EXPECT_EQ(assigned(square, 4, 4), (Rows{0, 2, 3, 1}));
}

TEST_P(Assignment, LeavesOutWhatIsNotCounted) {
  EXPECT_EQ(assigned({1, 0, 5, 0, 1, 5}, 2, 3, {0, 1, 0}), (Rows{-1, 0, -1}));
  EXPECT_EQ(assigned({1, 0, 5, 0, 1, 5}, 2, 3, {0, 0, 0}), (Rows{-1, -1, -1}));
}

// A cost that is no number is taken last.
TEST_P(Assignment, TakesBrokenCostsLast) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(assigned({kNan, 1, 2, -kInf}, 2, 2), (Rows{1, 0}));
}

TEST_P(Assignment, CostsLeastOfAll) {
  Mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t rows = 1 + random.randint(6), columns = 1 + random.randint(6);
    std::vector<float> cost(static_cast<size_t>(rows * columns));
    random.fill_normal(cost, 0, 1);
    const Rows found = assigned(cost, rows, columns);
    const auto at = [&](int64_t row, int64_t column) {
      return static_cast<double>(cost[static_cast<size_t>(row * columns + column)]);
    };
    double total = 0;
    int64_t pairs = 0;
    std::vector<bool> taken(static_cast<size_t>(rows), false);
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t row = found[static_cast<size_t>(column)];
      if (row < 0) continue;
      ASSERT_FALSE(taken[static_cast<size_t>(row)]);
      taken[static_cast<size_t>(row)] = true;
      total += at(row, column);
      ++pairs;
    }
    ASSERT_EQ(pairs, std::min(rows, columns));
    // All ways: the longer side permuted, of which the first ones belong to the shorter side.
    Rows longer(static_cast<size_t>(std::max(rows, columns)));
    std::iota(longer.begin(), longer.end(), int64_t{0});
    double least = std::numeric_limits<double>::infinity();
    do {
      double sum = 0;
      for (int64_t i = 0; i < pairs; ++i)
        sum += rows >= columns ? at(longer[static_cast<size_t>(i)], i) : at(i, longer[static_cast<size_t>(i)]);
      least = std::min(least, sum);
    } while (std::next_permutation(longer.begin(), longer.end()));
    ASSERT_NEAR(total, least, 1e-6) << rows << " x " << columns;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Assignment, testing::Values("cpu", "reference"), test::NameOfCase());

}  // namespace
}  // namespace transom
