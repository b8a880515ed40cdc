// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace transom {
namespace {

TEST(BlockPool, GivesEachBlockOnce) {
  BlockPool pool(3);
  std::vector<int64_t> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(pool.take());
  EXPECT_EQ(std::set<int64_t>(taken.begin(), taken.end()).size(), 3u);
  EXPECT_EQ(pool.take(), -1);
  pool.release(taken[1]);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.take(), taken[1]);
}

TEST(BlockPool, Grows) {
  BlockPool pool(2);
  const int64_t named = pool.take();
  PrefixId prefix = 1;
  pool.name(named, prefix, TokenIds{5, 6});
  pool.release(named);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.blank(), 1);
  pool.grow(3);
  EXPECT_EQ(pool.size(), 5);
  EXPECT_EQ(pool.blank(), 4);
  // What holds a prefix is taken last.
  for (int i = 0; i < 4; ++i) EXPECT_NE(pool.take(), named);
  EXPECT_EQ(pool.blank(), 0);
  prefix = 1;
  EXPECT_EQ(pool.find(prefix, TokenIds{5, 6}), named);
  pool.release(named);
  EXPECT_EQ(pool.take(), named);
  EXPECT_EQ(pool.take(), -1);
}

TEST(BlockPool, ASharedBlockIsFreeWhenTheLastGivesItUp) {
  BlockPool pool(1);
  const int64_t block = pool.take();
  pool.share(block);
  pool.release(block);
  EXPECT_EQ(pool.take(), -1);
  pool.release(block);
  EXPECT_EQ(pool.take(), block);
}

TEST(BlockPool, FindsWhatFollowsAPrefix) {
  BlockPool pool(4);
  const TokenIds first{1, 2}, second{3, 4};
  PrefixId prefix = 0;
  const int64_t a = pool.take(), b = pool.take();
  pool.name(a, prefix, first);
  pool.name(b, prefix, second);
  pool.release(a), pool.release(b);
  PrefixId asked = 0;
  EXPECT_EQ(pool.find(asked, second), -1) << "the same tokens behind another text";
  EXPECT_EQ(pool.find(asked, first), a);
  EXPECT_EQ(pool.find(asked, second), b);
  EXPECT_EQ(asked, prefix);
  PrefixId other_root = 1;
  EXPECT_EQ(pool.find(other_root, first), -1);
  EXPECT_EQ(pool.available(), 2);
}

TEST(BlockPool, TakesWhatHoldsNothingFirstThenTheOldest) {
  BlockPool pool(3);
  std::vector<int64_t> blocks{pool.take(), pool.take(), pool.take()};
  for (int64_t i = 0; i < 2; ++i) {
    PrefixId prefix = 0;
    pool.name(blocks[static_cast<size_t>(i)], prefix, TokenIds{i});
  }
  pool.release(blocks[1]), pool.release(blocks[0]), pool.release(blocks[2]);
  EXPECT_EQ(pool.take(), blocks[2]);
  EXPECT_EQ(pool.take(), blocks[1]);
  PrefixId prefix = 0;
  EXPECT_EQ(pool.find(prefix, TokenIds{1}), -1);
  EXPECT_EQ(pool.find(prefix, TokenIds{0}), blocks[0]);
}

TEST(BlockPool, OneOfTwoBlocksWithTheSameTextIsNamed) {
  BlockPool pool(2);
  const int64_t a = pool.take(), b = pool.take();
  PrefixId from_a = 0, from_b = 0;
  pool.name(a, from_a, TokenIds{7});
  pool.name(b, from_b, TokenIds{7});
  EXPECT_EQ(from_a, from_b);
  pool.release(b);
  PrefixId prefix = 0;
  EXPECT_EQ(pool.find(prefix, TokenIds{7}), a);
}

}  // namespace
}  // namespace transom
