// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/tokenised_rows.h"
#include "support/message.h"
#include "transom/error.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using enum ColumnType;
using Ints = std::vector<int64_t>;

TEST(TokenisedRows, SequencesAndLabels) {
  const TokenisedRows classes(
      Dataset::from_rows({{"input_ids", kInts}, {"token_type_ids", kInts}, {"labels", kInt}, {"text", kString}},
                         {{Ints{1, 2}, Ints{0, 1}, int64_t{3}, "x"}}));
  EXPECT_EQ(classes.row(0).sequences, (std::map<std::string, Ints>{{"input_ids", {1, 2}}, {"token_type_ids", {0, 1}}}));
  EXPECT_EQ(classes.row(0).label, 3);
  EXPECT_EQ(classes.lengths("length"), (Ints{2}));

  const TokenisedRows tags(Dataset::from_rows({{"input_ids", kInts}, {"label", kInts}}, {{Ints{1, 2}, Ints{5, -100}}}));
  EXPECT_EQ(tags.row(0).sequences.at("labels"), (Ints{5, -100}));
  EXPECT_FALSE(tags.row(0).label);

  const TokenisedRows values(Dataset::from_rows({{"input_ids", kInts}, {"labels", kFloats}, {"length", kInt}},
                                                {{Ints{1}, std::vector<double>{0, 1}, int64_t{9}}}));
  EXPECT_EQ(values.row(0).label_values, (std::vector<float>{0, 1}));
  EXPECT_EQ(values.lengths("length"), (Ints{9}));
}

TEST(TokenisedRows, RefusalsNameTheRow) {
  EXPECT_THROW(TokenisedRows(Dataset::from_rows({{"text", kString}}, {{"x"}})), Error);
  EXPECT_THROW(TokenisedRows(Dataset::from_rows({{"input_ids", kInts}, {"labels", kString}}, {{Ints{1}, "x"}})), Error);
  const TokenisedRows uneven(Dataset::from_rows({{"input_ids", kInts}, {"labels", kInts}}, {{Ints{1, 2}, Ints{5}}}));
  EXPECT_EQ(test::message_without_folders([&] { uneven.row(0); }),
            "rows: row 1, column 'labels': expected 2 numbers as in input_ids, found 1");
  const TokenisedRows missing(
      Dataset::from_rows({{"input_ids", kInts}, {"labels", kInt}}, {{Ints{1}, std::monostate()}}));
  EXPECT_EQ(test::message_without_folders([&] { missing.row(0); }),
            "rows: row 1, column 'labels': expected a label, found nothing");
}

}  // namespace
}  // namespace transom
