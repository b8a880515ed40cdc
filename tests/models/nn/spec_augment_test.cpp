// SPDX-License-Identifier: Apache-2.0
#include "models/nn/spec_augment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<int64_t> spans(int64_t rows, int64_t extent, const SpanMasking& masking, const Tensor& lengths,
                           int64_t seed) {
  ForwardContext context{.training = true, .dropout_key = Tensor::from(std::vector<int64_t>{seed, 0}, {2})};
  return cast(masked_spans(rows, extent, masking, lengths, context), DType::kInt64).to_vector<int64_t>();
}

TEST(SpecAugment, MasksNothingAtProbabilityZero) {
  ForwardContext context{.training = true};
  EXPECT_FALSE(masked_spans(2, 10, {.probability = 0}, {}, context).defined());
}

// Spans have their length, lie inside of what counts, and cover about the part that is asked for.
TEST(SpecAugment, SpansLieInsideOfEachRow) {
  const std::vector<int64_t> lengths = {40, 12};
  int64_t masked = 0;
  for (int64_t seed = 0; seed < 20; ++seed) {
    const auto mask = spans(2, 40, {.probability = 0.3, .length = 4, .least = 1}, Tensor::from(lengths, {2}), seed);
    for (int64_t row = 0; row < 2; ++row) {
      int64_t run = 0, longest = 0, first = -1, count = 0;
      for (int64_t t = 0; t < 40; ++t) {
        const int64_t marked = mask[static_cast<size_t>(row * 40 + t)];
        if (marked && first < 0) first = t;
        run = marked ? run + 1 : 0;
        longest = std::max(longest, run);
        count += marked;
        EXPECT_FALSE(marked && t >= lengths[static_cast<size_t>(row)]);
      }
      EXPECT_GE(longest, 4);
      if (row == 0) masked += count;
    }
  }
  EXPECT_GT(masked, 20 * 40 * 0.15);
  EXPECT_LT(masked, 20 * 40 * 0.35);
}

TEST(SpecAugment, EachPassDrawsAnew) {
  const SpanMasking masking{.probability = 0.3, .length = 4};
  EXPECT_EQ(spans(1, 40, masking, {}, 1), spans(1, 40, masking, {}, 1));
  EXPECT_NE(spans(1, 40, masking, {}, 1), spans(1, 40, masking, {}, 2));
}

TEST(SpecAugment, RefusesSpansLongerThanTheInput) {
  ForwardContext context{.training = true, .dropout_key = Tensor::from(std::vector<int64_t>{0, 0}, {2})};
  EXPECT_THROW(masked_spans(1, 3, {.probability = 0.5, .length = 10}, {}, context), Error);
}

}  // namespace
}  // namespace transom
