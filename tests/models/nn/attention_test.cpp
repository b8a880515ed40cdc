// SPDX-License-Identifier: Apache-2.0
#include "models/nn/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/test_names.h"
#include "transom/error.h"
#include "transom/gradients.h"

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

// ---- in blocks (cpu, f32) as by the primitives (f64)

struct Case {
  int64_t B, T, S, H, G, d, e;
  bool causal;
  int64_t window;
  enum { kNone, kPadding, kLeftPadding, kHeads } bias;
  double dropout, soft_cap;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.B << "x" << c.T << "x" << c.S << " heads " << c.H << "/" << c.G << " of " << c.d << "," << c.e
             << (c.causal ? " causal" : "") << " window " << c.window << " bias " << c.bias << " dropout " << c.dropout;
}

class BlockedAttention : public testing::TestWithParam<Case> {};

Tensor wave(const Shape& shape, double phase) {
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i * i % 1009)));
  return Tensor::from(values, shape);
}

Tensor bias_of(const Case& c) {
  if (c.bias == Case::kNone) return {};
  if (c.bias == Case::kHeads) return wave({1, c.H, c.T, c.S}, 4);
  std::vector<float> values(static_cast<size_t>(c.B * c.S));
  for (int64_t b = 0; b < c.B; ++b)
    for (int64_t s = 0; s < c.S; ++s) {
      const bool hidden = c.bias == Case::kPadding ? s > c.S - 2 * b - 2 : s < 3 * b + 1;
      values[static_cast<size_t>(b * c.S + s)] = hidden ? static_cast<float>(kMaskedScore) : 0.0f;
    }
  return Tensor::from(values, {c.B, 1, 1, c.S});
}

// The output, then the gradients of a sum of it for q, k, v.
std::vector<std::vector<double>> computed(const Case& c, DType dtype) {
  const Tensor q = cast(wave({c.B, c.T, c.H, c.d}, 1), dtype), k = cast(wave({c.B, c.S, c.G, c.d}, 2), dtype),
               v = cast(wave({c.B, c.S, c.G, c.e}, 3), dtype);
  const Tensor key = Tensor::from(std::vector<int64_t>{11, 5}, {2});
  const AttentionOptions options{.scale = 0.4, .causal = c.causal, .sliding_window = c.window, .soft_cap = c.soft_cap};
  const Tensor out = attention(q, k, v, bias_of(c), options, {}, key, c.dropout);
  const Tensor weight = cast(wave(out.shape(), 6), dtype);
  std::vector<Tensor> results = gradients(reduce_sum(out * weight, {0, 1, 2, 3}), {q, k, v});
  results.insert(results.begin(), out);
  std::vector<std::vector<double>> values;
  for (const Tensor& result : results) values.push_back(cast(result, DType::kFloat64).to_vector<double>());
  return values;
}

TEST_P(BlockedAttention, GivesWhatThePrimitivesGive) {
  const auto expected = computed(GetParam(), DType::kFloat64);
  for (const auto& [dtype, tolerance] : {std::pair{DType::kFloat32, 2e-5}, std::pair{DType::kBFloat16, 0.06}}) {
    const auto found = computed(GetParam(), dtype);
    for (size_t i = 0; i < expected.size(); ++i) {
      double scale = 0.1;
      for (const double value : expected[i]) scale = std::max(scale, std::abs(value));
      for (size_t j = 0; j < expected[i].size(); ++j)
        ASSERT_NEAR(found[i][j], expected[i][j], tolerance * scale) << "result " << i << " element " << j;
    }
  }
}

std::string name_of_blocked(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const char* biases[] = {"no_bias", "padding", "left_padding", "bias_by_head"};
  return test::words(c.T, "of", c.S, c.causal ? "causal" : "whole", biases[c.bias]);
}

INSTANTIATE_TEST_SUITE_P(Cases, BlockedAttention,
                         testing::Values(Case{1, 1, 1, 1, 1, 1, 1, false, 0, Case::kNone, 0, 0},
                                         Case{2, 7, 7, 3, 3, 5, 4, false, 0, Case::kPadding, 0, 0},
                                         Case{2, 130, 130, 2, 2, 16, 16, false, 0, Case::kHeads, 0.1, 0},
                                         Case{2, 67, 67, 4, 2, 8, 8, true, 0, Case::kNone, 0, 0},
                                         Case{3, 150, 150, 2, 1, 8, 8, true, 0, Case::kPadding, 0.2, 0},
                                         Case{3, 140, 140, 2, 2, 8, 8, true, 0, Case::kLeftPadding, 0, 0},
                                         Case{2, 9, 9, 2, 2, 4, 4, true, 0, Case::kLeftPadding, 0.3, 0},
                                         Case{1, 300, 300, 2, 2, 8, 8, true, 17, Case::kNone, 0, 0},
                                         Case{1, 3, 40, 2, 1, 8, 8, true, 0, Case::kNone, 0, 0},
                                         Case{2, 1, 33, 4, 2, 8, 8, true, 0, Case::kLeftPadding, 0, 0},
                                         Case{1, 6, 4, 2, 2, 8, 8, true, 0, Case::kNone, 0, 0},
                                         Case{1, 70, 70, 2, 2, 8, 8, true, 0, Case::kHeads, 0, 5.0}),
                         name_of_blocked);

}  // namespace
}  // namespace transom
