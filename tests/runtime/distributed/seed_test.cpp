// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/seed.h"

#include <gtest/gtest.h>

#include <set>

namespace transom {
namespace {

TEST(SeedOfRank, IsAnotherForEachSeedAndRank) {
  std::set<int64_t> seen;
  for (int64_t seed = 0; seed < 64; ++seed)
    for (int64_t rank = 0; rank < 64; ++rank) seen.insert(seed_of_rank(seed, rank));
  EXPECT_EQ(seen.size(), 64u * 64u);
  EXPECT_NE(seed_of_rank(42, 1), seed_of_rank(43, 0));
}

TEST(SeedOfRank, KeepsThatOfOneProcess) {
  for (const int64_t seed : {int64_t{0}, int64_t{42}, int64_t{1} << 40}) EXPECT_EQ(seed_of_rank(seed, 0), seed);
}

}  // namespace
}  // namespace transom
