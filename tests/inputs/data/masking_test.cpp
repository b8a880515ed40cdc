// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/masking.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "inputs/data/text/token_labels.h"

namespace transom {
namespace {

using Ints = std::vector<int64_t>;

// transformers.DataCollatorForLanguageModeling with a generator of seed 5, three batches of single tokens and one of
// words.
TEST(Masking, MasksAreThoseOfTransformers) {
  PaddedRows tokens{2, 12, Ints(24)}, special{2, 12, Ints(24)}, words{2, 12, Ints(24)};
  std::iota(tokens.values.begin(), tokens.values.end(), 10);
  for (size_t i = 0; i < 24; ++i) {
    special.values[i] = i % 12 == 0 || i % 12 == 11;
    words.values[i] = special.values[i] != 0 ? -1 : static_cast<int64_t>((i % 12 - 1) / 2);
  }
  const MaskingOptions options{.probability = 0.3, .mask_token_id = 4, .vocabulary = 50};
  Mt19937 generator(5);
  PaddedRows masked = tokens;
  PaddedRows labels = mask_tokens(masked, special, options, generator);
  EXPECT_EQ(masked.values,
            (Ints{10, 4, 12, 13, 14, 4, 4, 17, 4, 19, 20, 21, 22, 23, 24, 25, 26, 27, 4, 29, 30, 14, 32, 33}));
  EXPECT_EQ(labels.values, (Ints{-100, 11,   -100, -100, -100, 15,   16, -100, 18,   -100, -100, -100,
                                 -100, -100, -100, -100, -100, -100, 28, -100, -100, 31,   32,   -100}));
  masked = tokens;
  mask_tokens(masked, special, options, generator);
  EXPECT_EQ(masked.values,
            (Ints{10, 11, 12, 13, 14, 0, 4, 4, 18, 4, 4, 21, 22, 23, 24, 25, 26, 27, 28, 29, 4, 31, 32, 33}));
  masked = tokens;
  mask_tokens(masked, special, options, generator);
  masked = tokens;
  labels = mask_tokens(masked, special, options, generator, &words);
  EXPECT_EQ(masked.values,
            (Ints{10, 11, 12, 13, 14, 15, 16, 4, 4, 19, 20, 21, 22, 4, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33}));
  EXPECT_EQ(labels.values, (Ints{-100, -100, -100, -100, -100, -100, -100, 17,   18,   -100, -100, -100,
                                 -100, 23,   24,   -100, -100, -100, -100, -100, -100, -100, -100, -100}));
}

TEST(Masking, SpecialTokensStay) {
  PaddedRows tokens{1, 2, {5, 6}};
  Mt19937 generator(1);
  const PaddedRows labels =
      mask_tokens(tokens, {1, 2, {1, 0}}, {.probability = 1, .mask_token_id = 4, .vocabulary = 9}, generator);
  EXPECT_EQ(tokens.values[0], 5);
  EXPECT_EQ(labels.values, (Ints{-100, 6}));
  EXPECT_THROW(mask_tokens(tokens, {1, 1, {1}}, {.vocabulary = 9}, generator), Error);
  EXPECT_THROW(mask_tokens(tokens, {1, 2, {1, 0}}, {}, generator), Error);
}

TEST(Masking, ARowHasNoMoreLabelsThanItsBound) {
  PaddedRows plain{40, 12, {}}, special{40, 12, Ints(480, 0)};
  for (int64_t i = 0; i < 480; ++i) plain.values.push_back(100 + i);
  const MaskingOptions unbound{.probability = 0.3, .mask_token_id = 4, .vocabulary = 90};
  MaskingOptions bound = unbound;
  bound.most = 3;
  PaddedRows all = plain, few = plain;
  Mt19937 one(7), other(7);
  const PaddedRows before = mask_tokens(all, special, unbound, one), labels = mask_tokens(few, special, bound, other);
  int64_t cut = 0, kept_last = 0;
  for (size_t row = 0; row < 40; ++row) {
    int64_t drawn = 0, kept = 0;
    for (size_t i = row * 12; i < (row + 1) * 12; ++i) {
      drawn += before.values[i] != kIgnoredLabel;
      kept += labels.values[i] != kIgnoredLabel;
      if (labels.values[i] == kIgnoredLabel) {
        EXPECT_EQ(few.values[i], plain.values[i]);
        continue;
      }
      EXPECT_EQ(labels.values[i], before.values[i]);
      EXPECT_EQ(few.values[i], all.values[i]);  // masked, replaced or kept as without the bound
    }
    EXPECT_EQ(kept, std::min<int64_t>(drawn, 3));
    cut += drawn > 3;
    kept_last += drawn > 3 && labels.values[row * 12 + 11] != kIgnoredLabel;
  }
  EXPECT_GT(cut, 5);
  EXPECT_GT(kept_last, 0);  // not the first ones alone
}

TEST(Masking, ABoundLeavesWholeWords) {
  PaddedRows tokens{1, 9, {10, 11, 12, 13, 14, 15, 16, 17, 18}}, special{1, 9, Ints(9, 0)};
  const PaddedRows words{1, 9, {0, 0, 0, 1, 1, 1, 2, 2, 2}};
  for (uint32_t seed = 0; seed < 10; ++seed) {
    PaddedRows masked = tokens;
    Mt19937 generator(seed);
    const PaddedRows labels = mask_tokens(
        masked, special, {.probability = 1, .mask_token_id = 4, .vocabulary = 9, .most = 4}, generator, &words);
    int64_t kept = 0;
    for (size_t i = 0; i < 9; ++i) {
      kept += labels.values[i] != kIgnoredLabel;
      EXPECT_EQ(labels.values[i] == kIgnoredLabel, labels.values[i / 3 * 3] == kIgnoredLabel);
    }
    EXPECT_EQ(kept, 3);  // one word of three: a second would be six
  }
}

TEST(LanguageModels, LabelsAndBlocks) {
  EXPECT_EQ(causal_labels({1, 3, {5, 0, 0}}, 0).values, (Ints{5, -100, -100}));
  EXPECT_EQ(causal_labels({1, 3, {5, 0, 0}}, {}).values, (Ints{5, 0, 0}));
  const std::vector<Ints> rows = {{1, 2, 3}, {4}, {5, 6, 7}};
  EXPECT_EQ(join_and_cut(rows, 2), (std::vector<Ints>{{1, 2}, {3, 4}, {5, 6}}));
  EXPECT_THROW(join_and_cut(rows, 0), Error);
}

TEST(TokenLabels, FollowTheWords) {
  const std::vector<std::string> names = {"B-LOC", "B-X", "I-LOC", "O"};
  const Ints words = {-1, 0, 0, 1, 2, 2, -1}, labels = {0, 3, 1};
  EXPECT_EQ(align_labels(words, labels, false, names), (Ints{-100, 0, -100, 3, 1, -100, -100}));
  EXPECT_EQ(align_labels(words, labels, true, names), (Ints{-100, 0, 2, 3, 1, 1, -100}));
  EXPECT_THROW(align_labels(Ints{3}, labels, true, names), Error);
  EXPECT_THROW(align_labels(Ints{0}, Ints{7}, true, names), Error);

  const TagLists lists = named_tags(std::vector<Ints>{{-100, 0, 3}}, std::vector<Ints>{{1, 1, 3, 0}}, names);
  EXPECT_EQ(lists.labels, (std::vector<std::vector<std::string>>{{"B-LOC", "O"}}));
  EXPECT_EQ(lists.predictions, (std::vector<std::vector<std::string>>{{"B-X", "O"}}));
}

}  // namespace
}  // namespace transom
