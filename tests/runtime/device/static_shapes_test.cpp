// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/static_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "transom/device.h"
#include "transom/error.h"

namespace transom {
namespace {

TEST(StaticShapes, LengthsAreFewAndNoneIsMuchTooLong) {
  for (const int64_t limit : {1, 7, 16, 17, 128, 512, 1024, 8192})
    for (const int64_t count : {1, 2, 5, 16, 40}) {
      SCOPED_TRACE(std::to_string(count) + " up to " + std::to_string(limit));
      const std::vector<int64_t> lengths = spaced_lengths(count, limit);
      EXPECT_LE(static_cast<int64_t>(lengths.size()), count);
      EXPECT_EQ(lengths.back(), limit);
      EXPECT_TRUE(std::is_sorted(lengths.begin(), lengths.end()));
      EXPECT_EQ(std::adjacent_find(lengths.begin(), lengths.end()), lengths.end());
      if (count < 2 || limit <= 16) continue;
      const double ratio = std::pow(static_cast<double>(limit) / 16, 1.0 / static_cast<double>(count - 1));
      for (int64_t length = 16; length <= limit; ++length) {
        const int64_t bucket = *std::lower_bound(lengths.begin(), lengths.end(), length);
        EXPECT_LE(static_cast<double>(bucket), static_cast<double>(length) * ratio + 8) << length;
      }
    }
  EXPECT_THROW(spaced_lengths(0, 8), Error);
}

TEST(StaticShapes, ADeviceThatDoesNotCareKeepsEachLength) {
  set_device("cpu");
  EXPECT_FALSE(wants_static_shapes());
  EXPECT_FALSE(length_buckets(std::nullopt, 512));
  EXPECT_FALSE(length_buckets(0, 512));
  EXPECT_EQ(row_bucket(3), 3);
  const LengthBuckets asked = length_buckets(4, 64);
  EXPECT_EQ(asked(3), 16);
  EXPECT_EQ(asked(64), 64);
  EXPECT_EQ(asked(65), 65);
}

}  // namespace
}  // namespace transom
