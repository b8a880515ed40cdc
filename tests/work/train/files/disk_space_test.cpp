// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/disk_space.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(DiskSpace, IsAskedForBeforeTheFirstStep) {
  const DiskNeed need{.model = 10'000'000, .checkpoint = 30'000'000, .checkpoints = 3};
  EXPECT_EQ(need.most(), 100'000'000u);
  EXPECT_EQ(short_of_space(need, 100'000'000, "out"), std::nullopt);
  EXPECT_EQ(short_of_space(need, 99'999'999, "out"),
            "out: the run writes up to 100.0 MB (3 checkpoints of 30.0 MB and the model of 10.0 MB) and the disk has "
            "100.0 MB free; see --save_total_limit, --save_only_model and --save_strategy");
  EXPECT_EQ(test::message_of([&] { short_of_space(need, 9'999'999, "out"); }),
            "out: the model takes 10.0 MB and the disk has 10.0 MB free: make room, or give another --output_dir");
}

TEST(DiskSpace, HoldsOneCheckpointMoreThanTheLimit) {
  EXPECT_EQ(checkpoints_at_once(7, std::nullopt), 7);
  EXPECT_EQ(checkpoints_at_once(7, 2), 3);
  EXPECT_EQ(checkpoints_at_once(2, 2), 2);
  EXPECT_EQ(checkpoints_at_once(0, 2), 0);
}

TEST(DiskSpace, IsThatOfTheFolder) {
  const test::TemporaryFolder folder;
  EXPECT_GT(available_bytes(folder.path()).value_or(0), 0u);
  EXPECT_EQ(available_bytes(folder / "missing"), std::nullopt);
}

}  // namespace
}  // namespace transom
