// SPDX-License-Identifier: Apache-2.0
#include "models/nn/noisy_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transom/layers.h"
#include "transom/parameters.h"

namespace transom {
namespace {

const auto kTable = std::make_shared<Parameter>(Parameter{"table", zeros({4, 8}), false});

Tensor key() { return Tensor::from(std::vector<int64_t>{7, 0}, {2}); }

TEST(NoisyEmbedding, NoiseHasTheBoundOfNeftune) {
  const Tensor vectors = zeros({2, 8, 8});
  NoisyEmbedding noise(kTable, 4, key());
  const std::vector<float> first = noise.with_noise(kTable, vectors).to_vector<float>();
  const double bound = 4 / std::sqrt(64.0);
  double largest = 0, sum = 0;
  for (const float value : first) largest = std::max<double>(largest, std::abs(value)), sum += value;
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.8 * bound);
  EXPECT_LT(std::abs(sum / 128), 0.2 * bound);
  EXPECT_NE(noise.with_noise(kTable, vectors).to_vector<float>(), first) << "a second lookup draws anew";
}

TEST(NoisyEmbedding, OnlyItsTableIsNoisy) {
  const auto other = std::make_shared<Parameter>(Parameter{"other", zeros({4, 8}), false});
  const Tensor vectors = zeros({2, 3, 8});
  const std::vector<float> none(48, 0.0F);
  NoisyEmbedding noise(kTable, 4, key());
  EXPECT_EQ(noise.with_noise(other, vectors).to_vector<float>(), none);
  EXPECT_NE(noise.with_noise(kTable, vectors).to_vector<float>(), none);
}

// What a pass gives a layer is for this call alone.
TEST(NoisyEmbedding, IsOfThePassThatHasIt) {
  ParameterSet parameters;
  const Embedding embedding(Scope(parameters), 4, 8);
  const Tensor ids = Tensor::from(std::vector<int64_t>{0, 1, 2, 3}, {2, 2});
  NoisyEmbedding noise(embedding.weight(), 4, key());
  ForwardContext plain, noisy{.computing = {.noise = &noise}};
  const auto rows = [&](ForwardContext& context) { return embedding(ids, context).to_vector<float>(); };
  const std::vector<float> before = rows(plain);
  EXPECT_NE(rows(noisy), before);
  EXPECT_EQ(rows(plain), before);
}

}  // namespace
}  // namespace transom
