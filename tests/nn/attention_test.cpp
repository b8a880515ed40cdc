// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transom/error.h"

namespace transom {
namespace {

Tensor floats(std::vector<float> values, Shape shape) { return Tensor::from(values, std::move(shape)); }

TEST(AdditiveMask, BroadcastsOverHeadsAndQueries) {
  const Tensor mask = additive_mask(Tensor::from(std::vector<int64_t>{1, 0}, {1, 2}));
  EXPECT_EQ(mask.shape(), (Shape{1, 1, 1, 2}));
  const auto values = mask.to_vector<float>();
  EXPECT_EQ(values[0], 0);
  EXPECT_LT(values[1], -3e38);
  EXPECT_TRUE(std::isfinite(values[1]));
}

TEST(AdditiveMask, OfQueriesHasAnAxisForHeads) {
  EXPECT_EQ(additive_mask(Tensor::from(std::vector<int64_t>{1, 0, 1, 1}, {1, 2, 2})).shape(), (Shape{1, 1, 2, 2}));
}

TEST(AdditiveMask, OfFourAxesIsAdditiveAlready) {
  EXPECT_EQ(additive_mask(floats({0, -7}, {1, 1, 1, 2})).to_vector<float>(), (std::vector<float>{0, -7}));
}

TEST(AdditiveMask, RefusesOtherRanks) {
  EXPECT_FALSE(additive_mask(Tensor()).defined());
  EXPECT_THROW(additive_mask(Tensor::from(std::vector<int64_t>{1}, {1})), Error);
}

// Two heads of one number each: each is softmax(q k) v by itself.
TEST(Attention, HeadsLieSideBySide) {
  const Tensor q = floats({1, 2}, {1, 1, 2}), k = floats({0, 1, std::log(3.0f), 1}, {1, 2, 2});
  const Tensor v = floats({4, 10, 8, 20}, {1, 2, 2});
  ForwardContext context;
  const auto mixed = multi_head_attention(q, k, v, 2, {}, Dropout(0), context).to_vector<float>();
  EXPECT_NEAR(mixed[0], 0.25 * 4 + 0.75 * 8, 1e-5);
  EXPECT_NEAR(mixed[1], 15, 1e-5);
}

TEST(Attention, ARowWithNothingToSeeIsTheMean) {
  const Tensor x = floats({1, 5}, {1, 2, 1});
  ForwardContext context;
  const Tensor mask = additive_mask(Tensor::from(std::vector<int64_t>{0, 0}, {1, 2}));
  for (const float value : multi_head_attention(x, x, x, 1, mask, Dropout(0), context).to_vector<float>())
    EXPECT_NEAR(value, 3, 1e-5);
}

}  // namespace
}  // namespace transom
