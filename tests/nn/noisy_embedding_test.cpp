// SPDX-License-Identifier: Apache-2.0
#include "nn/noisy_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transom/ops.h"

namespace transom {
namespace {

const auto kTable = std::make_shared<Parameter>(Parameter{"table", zeros({4, 8}), false});

Tensor key() { return Tensor::from(std::vector<int64_t>{7, 0}, {2}); }

TEST(NoisyEmbedding, NoiseHasTheBoundOfNeftune) {
  const Tensor vectors = zeros({2, 8, 8});
  const NoisyEmbedding noise(kTable, 4, key());
  const std::vector<float> first = with_noise(kTable, vectors).to_vector<float>();
  const double bound = 4 / std::sqrt(64.0);
  double largest = 0, sum = 0;
  for (const float value : first) largest = std::max<double>(largest, std::abs(value)), sum += value;
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.8 * bound);
  EXPECT_LT(std::abs(sum / 128), 0.2 * bound);
  EXPECT_NE(with_noise(kTable, vectors).to_vector<float>(), first) << "a second lookup draws anew";
}

TEST(NoisyEmbedding, OnlyItsTableIsNoisy) {
  const auto other = std::make_shared<Parameter>(Parameter{"other", zeros({4, 8}), false});
  const Tensor vectors = zeros({2, 3, 8});
  const std::vector<float> none(48, 0.0F);
  {
    const NoisyEmbedding noise(kTable, 4, key());
    EXPECT_EQ(with_noise(other, vectors).to_vector<float>(), none);
  }
  EXPECT_EQ(with_noise(kTable, vectors).to_vector<float>(), none) << "and none without a scope";
}

}  // namespace
}  // namespace transom
