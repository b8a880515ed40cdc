// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/input_scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/mt19937.h"
#include "files/blocks/rounded_matrix.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kRows = 24, kDepth = 64, kGroup = 32;

// Independent inputs, of which some are larger than others.
LayerInputs inputs_of_sizes(const std::vector<float>& sizes) {
  LayerInputs inputs;
  const size_t depth = sizes.size();
  inputs.products.resize(depth * depth);
  for (size_t k = 0; k < depth; ++k) inputs.products[k * depth + k] = sizes[k] * sizes[k];
  inputs.magnitudes = inputs.largest = sizes;
  return inputs;
}

// Squares of what the outputs lose where w times the scales is rounded, and divided again.
double lost(const LayerInputs& inputs, const std::vector<float>& w, const std::vector<float>& scales) {
  std::vector<float> scaled = w, rest(w.size());
  for (size_t i = 0; i < w.size(); ++i) scaled[i] *= scales[i % kDepth];
  const auto rounded = rounded_matrix(scaled.data(), kRows, kDepth, {.bits = 4, .group = kGroup, .search = true});
  for (int64_t r = 0; r < kRows; ++r) rounded->dequantise_row(r, rest.data() + r * kDepth);
  for (size_t i = 0; i < w.size(); ++i) rest[i] = rest[i] / scales[i % kDepth] - w[i];
  return output_squares(rest, Tensor::from(inputs.products, {kDepth, kDepth}));
}

std::vector<float> normal_weight(uint32_t seed) {
  std::vector<float> w(static_cast<size_t>(kRows * kDepth));
  Mt19937(seed).fill_normal(w, 0, 0.05);
  return w;
}

TEST(AwqScales, AreLargeWhereInputsAre) {
  std::vector<float> sizes(kDepth, 1.0f);
  const std::vector<size_t> large{3, 17, 40};
  for (const size_t k : large) sizes[k] = 20;
  const LayerInputs inputs = inputs_of_sizes(sizes);
  const std::vector<float> w = normal_weight(1), scales = awq_scales(inputs, {&w}, kGroup);
  ASSERT_EQ(scales.size(), sizes.size());
  float small = 0;  // the mean of the others
  for (size_t k = 0; k < scales.size(); ++k)
    if (sizes[k] == 1) small += scales[k] / static_cast<float>(scales.size() - large.size());
  for (const size_t k : large) EXPECT_GT(scales[k], 1.2 * small) << k;
  EXPECT_LT(lost(inputs, w, scales), 0.5 * lost(inputs, w, std::vector<float>(kDepth, 1.0f)));
}

TEST(AwqScales, LoseNoMoreThanWithoutAny) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    std::vector<float> sizes(kDepth);
    Mt19937 random(seed);
    random.fill_normal(sizes, 1, 0.05);
    const LayerInputs inputs = inputs_of_sizes(sizes);
    const std::vector<float> w = normal_weight(seed + 10);
    EXPECT_LE(lost(inputs, w, awq_scales(inputs, {&w}, kGroup)), lost(inputs, w, std::vector<float>(kDepth, 1.0f)));
  }
}

// A column that is small beside the largest of its group has few steps of the common scale.
TEST(AwqScales, AreLargeWhereWeightsAreSmall) {
  std::vector<float> w = normal_weight(2);
  for (size_t i = 5; i < w.size(); i += kDepth) w[i] *= 0.1f;
  const LayerInputs inputs = inputs_of_sizes(std::vector<float>(kDepth, 1.0f));
  const std::vector<float> scales = awq_scales(inputs, {&w}, kGroup);
  EXPECT_GE(scales[5], *std::max_element(scales.begin(), scales.end()));
}

TEST(AwqScales, AreFiniteForInputsAndWeightsOfZero) {
  std::vector<float> sizes(kDepth, 1.0f), w = normal_weight(3);
  sizes[7] = 0;
  for (size_t i = 9; i < w.size(); i += kDepth) w[i] = 0;
  for (const float scale : awq_scales(inputs_of_sizes(sizes), {&w}, kGroup)) {
    EXPECT_TRUE(std::isfinite(scale));
    EXPECT_GT(scale, 0);
  }
}

TEST(SmoothScales, AreTheRootOfInputsByWeights) {
  std::vector<float> sizes(kDepth, 1.0f), w(static_cast<size_t>(kRows * kDepth), 0.25f);
  sizes[2] = 16;
  w[static_cast<size_t>(4 * kDepth + 3)] = -4;
  const std::vector<float> scales = smooth_scales(inputs_of_sizes(sizes), {&w});
  EXPECT_FLOAT_EQ(scales[0], 2);
  EXPECT_FLOAT_EQ(scales[2], 8);
  EXPECT_FLOAT_EQ(scales[3], 0.5f);
}

}  // namespace
}  // namespace transom
