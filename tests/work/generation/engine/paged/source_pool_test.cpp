// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/source_pool.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/ops.h"

namespace transom {
namespace {

AttendedPicture picture_of(float value, int64_t parts) {
  const std::vector<float> keys(static_cast<size_t>(parts * 2), value), values(static_cast<size_t>(parts * 2), -value);
  const Shape shape{parts * 2, 1, 1};
  return {{{Tensor::from(keys, shape), Tensor::from(values, shape)}}, parts, 1};
}

TEST(SourcePool, SharesEqualPicturesAndTakesBlocksAgain) {
  SourcePool pool(2);
  EXPECT_TRUE(pool.pools().empty());
  int made = 0;
  const auto hold = [&](const std::string& name, float value, int64_t parts) {
    return pool.hold(name, [&] {
      ++made;
      return picture_of(value, parts);
    });
  };
  auto one = hold("one", 1, 2);
  const auto again = hold("one", 1, 2);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(again->blocks, one->blocks);
  const auto other = hold("other", 3, 3);
  EXPECT_EQ(made, 2);
  ASSERT_EQ(pool.pools().size(), 2u);
  const std::vector<float> keys = pool.pools()[0].to_vector<float>(), values = pool.pools()[1].to_vector<float>();
  for (const auto& [held, value] : {std::pair(one, 1.0f), std::pair(other, 3.0f)})
    for (const int32_t block : held->blocks)
      for (size_t row = 0; row < 2; ++row) {
        EXPECT_EQ(keys[static_cast<size_t>(block) * 2 + row], value);
        EXPECT_EQ(values[static_cast<size_t>(block) * 2 + row], -value);
      }
  const int64_t size = pool.pools()[0].dim(0);
  EXPECT_GE(size, 10);
  one.reset();
  EXPECT_EQ(hold("one", 1, 2)->blocks, again->blocks);  // somebody holds it still
  EXPECT_EQ(made, 2);
}

TEST(SourcePool, GivesUpWhatNobodyHolds) {
  SourcePool pool(2);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(pool.hold(std::to_string(i), [&] { return picture_of(1, 4); })->blocks.size(), 4u);
  EXPECT_EQ(pool.pools()[0].dim(0), 8);
  EXPECT_NE(test::message_of([&] { pool.hold("wrong", [&] {
                                     return AttendedPicture{{}, 1, 1};
                                   }); }).find("parts"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
