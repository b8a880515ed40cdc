// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/text/text_features.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(TextRows, OfAFileThatStaysOnDiskAreMadeForEachBatch) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.txt", "x\nxxx\nxx\n");
  std::atomic<int> made = 0;
  const auto rows = [&](uint64_t memory_limit, const char* strategy) {
    const Dataset data = Dataset::load(file, {.memory_limit = memory_limit});
    EXPECT_EQ(data.in_memory(), memory_limit > 0);
    TrainArguments arguments;
    arguments.training.train_sampling_strategy = strategy;
    made = 0;
    return text_rows(data, arguments, {}, [data, &made](int64_t i) {
      ++made;
      Features features;
      features.sequences["input_ids"].assign(text_of(data, i, data.row(i), 0).size(), i + 1);
      return features;
    });
  };
  const TrainingData held = rows(1000, "random"), lazy = rows(0, "random");
  EXPECT_EQ(made, 0);
  EXPECT_EQ(lazy.rows, 3);
  EXPECT_TRUE(lazy.lengths.empty());
  EXPECT_EQ(lazy.batch({2, 0}).sequences, held.batch({2, 0}).sequences);
  EXPECT_EQ(made, 2);
  const TrainingData grouped = rows(0, "group_by_length");
  EXPECT_EQ(grouped.lengths, (std::vector<int64_t>{1, 3, 2}));
  EXPECT_EQ(grouped.lengths, held.lengths);
}

}  // namespace
}  // namespace transom
