// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/padding.h"

#include <gtest/gtest.h>

#include "transom/error.h"

namespace transom {
namespace {

using Ints = std::vector<int64_t>;

TEST(Padding, LengthFollowsTheOptions) {
  EXPECT_EQ(padded_length(5, {}), 5);
  EXPECT_EQ(padded_length(5, {.multiple_of = 8}), 8);
  EXPECT_EQ(padded_length(8, {.multiple_of = 8}), 8);
  EXPECT_EQ(padded_length(5, {.max_length = 12}), 12);
  EXPECT_EQ(padded_length(5, {.max_length = 12, .multiple_of = 8}), 16);
  EXPECT_THROW(padded_length(13, {.max_length = 12}), Error);
}

TEST(Padding, EachSequenceHasItsOwnFiller) {
  const std::vector<Features> rows = {
      {.sequences = {{"input_ids", {5, 6, 7}}, {"labels", {1, 2, 3}}, {"token_type_ids", {0, 1, 1}}}},
      {.sequences = {{"input_ids", {8}}, {"labels", {4}}, {"token_type_ids", {0}}}}};
  const Batch batch = collate(rows, {.pad_token_id = 9, .pad_token_type_id = 3});
  EXPECT_EQ(batch.sequences.at("input_ids"), (PaddedRows{2, 3, {5, 6, 7, 8, 9, 9}}));
  EXPECT_EQ(batch.sequences.at("labels").values, (Ints{1, 2, 3, 4, -100, -100}));
  EXPECT_EQ(batch.sequences.at("token_type_ids").values, (Ints{0, 1, 1, 0, 3, 3}));
  EXPECT_EQ(batch.sequences.at("attention_mask").values, (Ints{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(collate(rows, {.left = true}).sequences.at("attention_mask").values, (Ints{1, 1, 1, 0, 0, 1}));
}

TEST(Padding, LabelsOfRows) {
  const std::vector<Features> classes = {{.sequences = {{"input_ids", {1}}}, .label = 2},
                                         {.sequences = {{"input_ids", {1}}}, .label = 0}};
  EXPECT_EQ(collate(classes, {}).labels, (Ints{2, 0}));
  const std::vector<Features> values = {{.sequences = {{"input_ids", {1}}}, .label_values = {1, 0}},
                                        {.sequences = {{"input_ids", {1}}}, .label_values = {0, 1}}};
  EXPECT_EQ(collate(values, {}).label_values, (std::vector<float>{1, 0, 0, 1}));
}

TEST(Padding, RowsThatDoNotFitAreRefused) {
  const std::vector<Features> uneven = {{.sequences = {{"input_ids", {1}}, {"labels", {1}}}},
                                        {.sequences = {{"input_ids", {1}}}}};
  EXPECT_THROW(collate(uneven, {}), Error);
  const std::vector<Features> mixed = {{.sequences = {{"input_ids", {1}}}, .label = 2},
                                       {.sequences = {{"input_ids", {1}}}}};
  EXPECT_THROW(collate(mixed, {}), Error);
  const std::vector<Features> none = {{.sequences = {{"labels", {1}}}}};
  EXPECT_THROW(collate(none, {}), Error);
}

TEST(Padding, LabelsOfEncoderDecodersArePaddedAmongThemselves) {
  std::vector<Features> rows(2);
  rows[0].sequences = {{"input_ids", {5, 6, 7}}, {"labels", {8}}, {"decoder_input_ids", {0}}};
  rows[1].sequences = {{"input_ids", {5}}, {"labels", {8, 9}}, {"decoder_input_ids", {0, 8}}};
  PaddingOptions options{.pad_token_id = 1};
  options.separate_labels = true;
  Batch batch = collate(rows, options);
  EXPECT_EQ(batch.sequences.at("input_ids"), (PaddedRows{2, 3, {5, 6, 7, 5, 1, 1}}));
  EXPECT_EQ(batch.sequences.at("attention_mask"), (PaddedRows{2, 3, {1, 1, 1, 1, 0, 0}}));
  EXPECT_EQ(batch.sequences.at("labels"), (PaddedRows{2, 2, {8, -100, 8, 9}}));
  EXPECT_EQ(batch.sequences.at("decoder_input_ids"), (PaddedRows{2, 2, {0, 1, 0, 8}}));
  options.max_label_length = 3;
  options.label_fill = 1;
  batch = collate(rows, options);
  EXPECT_EQ(batch.sequences.at("labels"), (PaddedRows{2, 3, {8, 1, 1, 8, 9, 1}}));
  EXPECT_EQ(batch.sequences.at("input_ids").length, 3);
}

TEST(Padding, LengthsComeFromTheBucketUnlessOtherwiseSaid) {
  PaddingOptions options;
  options.bucket = [](int64_t longest) { return longest <= 4 ? int64_t{4} : int64_t{9}; };
  EXPECT_EQ(padded_length(3, options), 4);
  EXPECT_EQ(padded_length(5, options), 9);
  options.multiple_of = 5;
  EXPECT_EQ(padded_length(3, options), 5);
  options.multiple_of.reset();
  options.max_length = 7;
  EXPECT_EQ(padded_length(3, options), 7);
}

TEST(Padding, ABatchIsFilledUpWithRowsThatDoNotCount) {
  std::vector<Features> rows(2);
  rows[0].sequences = {{"input_ids", {5, 6}}, {"labels", {1, 2}}};
  rows[1].sequences = {{"input_ids", {7, 8}}, {"labels", {3, 4}}};
  Batch batch = collate(rows, {});
  ASSERT_TRUE(fill_up(batch, 4));
  EXPECT_EQ(batch.sequences.at("input_ids"), (PaddedRows{4, 2, {5, 6, 7, 8, 7, 8, 7, 8}}));
  EXPECT_EQ(batch.sequences.at("attention_mask"), (PaddedRows{4, 2, {1, 1, 1, 1, 1, 1, 1, 1}}));
  EXPECT_EQ(batch.sequences.at("labels"), (PaddedRows{4, 2, {1, 2, 3, 4, -100, -100, -100, -100}}));

  Batch classes;
  classes.arrays["pixel_values"] = {{1, 2}, {0.5f, 2}};
  classes.labels = {3};
  ASSERT_TRUE(fill_up(classes, 3));
  EXPECT_EQ(classes.arrays.at("pixel_values").shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(classes.arrays.at("pixel_values").values, (std::vector<float>{0.5f, 2, 0.5f, 2, 0.5f, 2}));
  EXPECT_EQ(classes.labels, (std::vector<int64_t>{3, -100, -100}));
}

TEST(Padding, ABatchWhoseRowsWouldBeSeenIsLeftAsItIs) {
  std::vector<Features> rows(1);
  rows[0].sequences = {{"input_ids", {5, 6}}};
  rows[0].label_values = {0.5f};
  Batch regression = collate(rows, {});
  EXPECT_FALSE(fill_up(regression, 2));
  EXPECT_EQ(regression.sequences.at("input_ids").rows, 1);
  rows[0].label_values.clear();
  rows[0].numbers = {{"start_positions", 1}};
  Batch positions = collate(rows, {});
  EXPECT_FALSE(fill_up(positions, 2));
  rows[0].numbers.clear();
  Batch pairs = collate(rows, {});
  pairs.arrays["pixel_values"] = {{1, 1}, {1}};
  EXPECT_FALSE(fill_up(pairs, 2));
  Batch sounds;
  sounds.arrays["input_values"] = {{1, 1}, {1}};
  EXPECT_FALSE(fill_up(sounds, 2));
}

}  // namespace
}  // namespace transom
