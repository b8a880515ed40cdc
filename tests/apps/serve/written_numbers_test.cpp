// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/written_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace transom::serve {
namespace {

TEST(WrittenNumbers, AreTheShortestThatReadBack) {
  EXPECT_EQ(written(0.1F).dump(), "0.1");
  EXPECT_EQ(written(-2.0F).dump(), "-2.0");
  EXPECT_EQ(written(0.12345679F).dump(), "0.12345679");
  EXPECT_EQ(written(std::vector<float>{0.3F, 1e-7F}).dump(), "[0.3,1e-07]");
  EXPECT_EQ(written_score(0.30000000000000004).dump(), "0.3");
  EXPECT_TRUE(written(NAN).is_null());
  EXPECT_TRUE(written(-INFINITY).is_null());
  std::mt19937 random(1);
  int longer = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(Json::parse(written(value).dump()).get<float>(), value);
    const float score = static_cast<float>(bits) / 4.3e9F - 0.5F;
    longer += written(score).dump().size() > 17;
    EXPECT_EQ(Json::parse(written(score).dump()).get<float>(), score);
  }
  EXPECT_LT(longer, 100);
}

}  // namespace
}  // namespace transom::serve
