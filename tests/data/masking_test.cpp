// SPDX-License-Identifier: Apache-2.0
#include "data/masking.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "data/token_labels.h"

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
