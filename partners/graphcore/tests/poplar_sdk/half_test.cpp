// SPDX-License-Identifier: Apache-2.0
// Numbers of 16 bits as the machine rounds them.
#include "simulator/half.h"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace ipu_emulator;

TEST(IpuHalf, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = from_half(half);
    if (std::isnan(value)) EXPECT_TRUE(std::isnan(from_half(to_half(value))));
    else EXPECT_EQ(to_half(value), half) << bits;
  }
}

TEST(IpuHalf, RoundsToNearestEven) {
  EXPECT_EQ(from_half(to_half(2049.0f)), 2048.0f);
  EXPECT_EQ(from_half(to_half(2051.0f)), 2052.0f);
  EXPECT_EQ(from_half(to_half(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(from_half(to_half(65520.0f))));
  EXPECT_EQ(from_half(to_half(0x1p-25f)), 0.0f);
  EXPECT_EQ(from_half(to_half(0x1.8p-25f)), 0x1p-24f);
}

// The mean of many roundings is the number itself.
TEST(IpuHalf, StochasticRoundingHasNoBias) {
  std::mt19937 random(7);
  for (const float value : {1.0003f, -3.7001f, 2048.25f, 3e-6f, 0x1.3p-20f}) {
    const double step = std::abs(value) < 0x1p-14f ? 0x1p-24 : std::ldexp(1.0, std::ilogb(value) - 10);
    double sum = 0;
    constexpr int kTimes = 20000;
    for (int i = 0; i < kTimes; ++i) {
      const float rounded = from_half(to_half_stochastic(value, random()));
      EXPECT_LT(std::abs(rounded - value), step);
      sum += rounded;
    }
    EXPECT_NEAR(sum / kTimes, value, step * 0.02) << value;
  }
}

}  // namespace
