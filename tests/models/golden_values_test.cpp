// SPDX-License-Identifier: Apache-2.0
// A sample of a tensor, its norm and its signed sums find what is wrong anywhere in it.
#include "support/golden_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace transom {
namespace {

using GoldenNumbers = std::vector<double>;

constexpr size_t kMatrixRows = 24, kMatrixColumns = 24, kMatrixSamples = 12;
constexpr double kGoldenAtol = 1e-5, kGoldenRtol = 1e-3;  // those of the gradients of most cases

GoldenNumbers golden_gradient() {
  GoldenNumbers values(kMatrixRows * kMatrixColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i % 997)) / 8;
  return values;
}

// What tests/golden/make/sampled.py keeps.
test::KeptValues kept_of(const GoldenNumbers& values) {
  GoldenNumbers numbers;
  for (size_t k = 0; k < kMatrixSamples; ++k)
    numbers.push_back(values[test::place_of_sample(k, kMatrixSamples, values.size())]);
  numbers.push_back(std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0)));
  for (size_t k = 0; k < test::kSignedSums; ++k) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += (test::mixed(i) >> k & 1) != 0 ? -values[i] : values[i];
    numbers.push_back(sum);
  }
  return test::kept_values("weight [24,24]", {static_cast<int64_t>(numbers.size())}, numbers);
}

std::string golden_difference_after(const std::function<void(GoldenNumbers&)>& fault) {
  const GoldenNumbers right = golden_gradient();
  GoldenNumbers found = right;
  fault(found);
  return difference(kept_of(right), found, kGoldenAtol, kGoldenRtol);
}

TEST(SampledValues, NameAndShapeAreRead) {
  const test::KeptValues sampled = kept_of(golden_gradient());
  EXPECT_EQ(sampled.name, "weight");
  EXPECT_EQ(sampled.shape, (std::vector<int64_t>{24, 24}));
  EXPECT_TRUE(sampled.sampled);
  EXPECT_FALSE(test::kept_values("weight", {2}, {1, 2}).sampled);
}

TEST(SampledValues, RoundingPasses) {
  EXPECT_EQ(golden_difference_after([](GoldenNumbers&) {}), "");
  for (const double error : {1e-6, -1e-6})
    EXPECT_EQ(golden_difference_after([&](GoldenNumbers& x) {
                for (double& each : x) each += error;
              }),
              "");
}

TEST(SampledValues, FaultsOfManyElementsAreFound) {
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) {
              const GoldenNumbers before = x;
              for (size_t i = 0; i < kMatrixRows; ++i)
                for (size_t j = 0; j < kMatrixColumns; ++j) x[i * kMatrixColumns + j] = before[j * kMatrixColumns + i];
            }),
            "")
      << "transposed";
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) { std::reverse(x.begin(), x.end()); }), "") << "turned round";
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) { std::rotate(x.begin(), x.begin() + 1, x.end()); }), "")
      << "shifted";
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) {
              for (double& each : x) each = -each;
            }),
            "")
      << "of the other sign";
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) {
              for (double& each : x) each *= 1.005;
            }),
            "")
      << "too large";
}

TEST(SampledValues, FaultsOfARowAreFoundInEachRow) {
  for (size_t row = 0; row < kMatrixRows; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * kMatrixColumns), other = (begin + 48) % 576;
    EXPECT_NE(golden_difference_after([&](GoldenNumbers& x) { std::fill_n(x.begin() + begin, kMatrixColumns, 0.0); }),
              "")
        << row;
    EXPECT_NE(golden_difference_after([&](GoldenNumbers& x) {
                std::swap_ranges(x.begin() + begin, x.begin() + begin + kMatrixColumns, x.begin() + other);
              }),
              "")
        << row;
  }
}

// An element that is not sampled changes the sums.
TEST(SampledValues, ASingleWrongElementIsFoundWhereverItIs) {
  for (size_t i = 0; i < kMatrixRows * kMatrixColumns; ++i)
    EXPECT_NE(golden_difference_after([&](GoldenNumbers& x) { x[i] += 0.01; }), "") << i;
  EXPECT_NE(golden_difference_after([](GoldenNumbers& x) { x[77] = NAN; }), "");
}

TEST(SampledValues, WhatIsMaskedDoesNotCount) {
  GoldenNumbers right = golden_gradient(), found = right;
  std::vector<bool> counts(right.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = i / kMatrixColumns % 3 != 0;
    if (!counts[i]) right[i] = 0, found[i] = 1e6;
  }
  EXPECT_EQ(difference(kept_of(right), found, kGoldenAtol, kGoldenRtol, counts), "");
  EXPECT_NE(difference(kept_of(right), found, kGoldenAtol, kGoldenRtol), "");
}

}  // namespace
}  // namespace transom
