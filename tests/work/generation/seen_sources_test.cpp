// SPDX-License-Identifier: Apache-2.0
#include "work/generation/seen_sources.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

TEST(SeenSources, AreThoseOfTheLastRunOfPictures) {
  // A text with pictures at 2, and at 5 and 6; of the first two parts are seen, of the others one each.
  const SourcesOfText text({{5, {3, 4}, 1}, {2, {0, 1, 2}, 2}, {6, {7, 8}, 1}});
  EXPECT_EQ(text.at(0).blocks, (std::vector<int32_t>{0, 1, 2, 3, 4, 7, 8}));  // before the first: all, with all parts
  EXPECT_EQ(text.at(0).reads, 1);
  EXPECT_EQ(text.at(2).blocks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(text.at(2).reads, 2);
  EXPECT_EQ(text.at(4).blocks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(text.at(5).blocks, (std::vector<int32_t>{3}));
  EXPECT_EQ(text.at(1000).blocks, (std::vector<int32_t>{3, 7}));  // what is written
  EXPECT_EQ(SourcesOfText().at(3).reads, 0);
}

TEST(SeenSources, AreTablesOfOneWidth) {
  const std::vector<SeenBlocks> tokens{{}, {{4, 5, 6}, 2}, {{1}, 1}};
  const SourceNumbers numbers = source_numbers(tokens, 10);
  EXPECT_EQ(numbers.blocks, 4);
  EXPECT_EQ(numbers.tables, (std::vector<int32_t>{0, 0, 0, 0, 4, 5, 6, 0, 1, 0, 0, 0}));
  EXPECT_EQ(numbers.lengths, (std::vector<int32_t>{10, 30, 10}));
  EXPECT_EQ(numbers.reads, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(source_numbers(std::vector<SeenBlocks>(2), 10).blocks, 0);
}

}  // namespace
}  // namespace transom
