// SPDX-License-Identifier: Apache-2.0
// quantized_matmul with inputs of f8_e4m3fn: what rows become, against a search of the nearest number.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers/float8.h"
#include "graph/ops/products/packed_matrix.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kWidth = 32;
constexpr uint8_t kOne = 0x38;  // 1 as f8_e4m3fn

// The matrix of `code` in the diagonal, else 0.
PackedMatrix diagonal(uint8_t code) {
  std::vector<uint8_t> bytes(kWidth * kWidth, 0);  // [2, 1, 8, 16, 4]
  for (int64_t n = 0; n < kWidth; ++n)
    bytes[static_cast<size_t>(((n / 16 * 8 + n / 4) * 16 + n % 16) * 4 + n % 4)] = code;
  PackedMatrix matrix{.bits = 8, .rows = kWidth, .depth = kWidth, .group = 32};
  matrix.bytes = Tensor::from(bytes, {2, 1, 8, 16, 4});
  matrix.scales = full({2, 1, 16}, 1);
  matrix.values = Tensor::from(std::vector<float>(float8_values().begin(), float8_values().end()), {256});
  matrix.activations = "float8";
  return matrix;
}

// Of two that are as near the one whose last bit is 0.
float nearest(float x) {
  int best = 0;
  for (int code = 0; code < 127; ++code) {
    const float one = std::fabs(float8_values()[static_cast<size_t>(code)] - std::fabs(x)),
                other = std::fabs(float8_values()[static_cast<size_t>(best)] - std::fabs(x));
    if (one < other || (one == other && code % 2 == 0)) best = code;
  }
  return std::copysign(float8_values()[static_cast<size_t>(best)], x);
}

TEST(InputsOfFloat8, AreTheNearestNumbersInStepsOfTheirRow) {
  std::vector<float> x;
  for (int i = 0; i < 40 * kWidth; ++i)
    x.push_back(std::sin(static_cast<float>(i * i)) * std::exp2(static_cast<float>(i % 23 - 16)));
  for (int64_t i = 0; i < kWidth; ++i) {
    x[static_cast<size_t>(3 * kWidth + i)] = 0;                                             // a row without steps
    x[static_cast<size_t>(4 * kWidth + i)] = i == 0 ? 448 : 16.0f + static_cast<float>(i);  // ties of steps of 2
    x[static_cast<size_t>(5 * kWidth + i)] =
        i == 0 ? 448 : std::ldexp(static_cast<float>(i), -10);  // below the least power
  }
  const std::vector<float> found = quantized_matmul(Tensor::from(x, {40, kWidth}), diagonal(kOne)).to_vector<float>();
  for (size_t row = 0; row < 40; ++row) {
    float most = 0;
    for (size_t i = 0; i < kWidth; ++i) most = std::max(most, std::fabs(x[row * kWidth + i]));
    const float scale = most / 448;
    for (size_t i = 0; i < kWidth; ++i)
      EXPECT_EQ(found[row * kWidth + i], scale == 0 ? 0 : nearest(x[row * kWidth + i] / scale) * scale)
          << row << " " << i;
  }
}

TEST(InputsOfFloat8, MeetTheNumberOfEachCode) {
  for (int code = 0; code < 256; ++code) {
    const std::vector<float> found =
        quantized_matmul(full({1, kWidth}, 1), diagonal(static_cast<uint8_t>(code))).to_vector<float>();
    if (const float number = float8_values()[static_cast<size_t>(code)]; std::isnan(number))
      EXPECT_TRUE(std::isnan(found[7]));
    else EXPECT_EQ(found[7], number) << code;
  }
}

TEST(InputsOfFloat8, ARowThatIsNotFiniteIsNaN) {
  std::vector<float> x(2 * kWidth, 1);
  x[5] = std::numeric_limits<float>::infinity();
  const std::vector<float> found = quantized_matmul(Tensor::from(x, {2, kWidth}), diagonal(kOne)).to_vector<float>();
  for (size_t i = 0; i < kWidth; ++i) {
    EXPECT_TRUE(std::isnan(found[i])) << i;
    EXPECT_EQ(found[kWidth + i], 1) << i;
  }
}

// Of the numbers of the codes; what is rounded of x counts as x.
TEST(InputsOfFloat8, HaveTheGradientOfInputsAsTheyAre) {
  const Tensor x = full({3, kWidth}, 0.3), dy = full({3, kWidth}, 2);
  const Tensor dx = gradients({quantized_matmul(x, diagonal(0xC0))}, {dy}, {x})[0];  // -2
  EXPECT_EQ(dx.to_vector<float>(), std::vector<float>(3 * kWidth, -4));
}

TEST(InputsOfFloat8, WantCodesOfTheSameType) {
  PackedMatrix small = diagonal(kOne);
  small.group = 16, small.scales = full({2, 2, 16}, 1);
  EXPECT_THROW(quantized_matmul(full({1, kWidth}, 1), small), Error);
}

}  // namespace
}  // namespace transom
