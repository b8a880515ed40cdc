// SPDX-License-Identifier: Apache-2.0
// All halves, and floats around the places where rounding changes, beside the compiler's conversions.
#include "base/numbers/half_bits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/numbers/half.h"

namespace transom {
namespace {

Float16 half_with(uint16_t bits) {
  Float16 half;
  half.bits = bits;
  return half;
}

TEST(HalfBits, AllHalvesBecomeTheSameFloats) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float expected = half_with(static_cast<uint16_t>(bits)), found = float_of_half(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) EXPECT_TRUE(std::isnan(found)) << bits;
    else EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected)) << bits;
  }
}

TEST(HalfBits, FloatsAreRoundedToTheSameHalves) {
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const uint32_t here = std::bit_cast<uint32_t>(float_of_half(static_cast<uint16_t>(bits)));
    for (const uint32_t step : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu})
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const float value = std::bit_cast<float>((here + step) | sign);
        if (std::isnan(value)) EXPECT_GT(half_of_float(value) & 0x7FFF, 0x7C00);
        else EXPECT_EQ(half_of_float(value), Float16(value).bits) << value;
      }
  }
}

}  // namespace
}  // namespace transom
