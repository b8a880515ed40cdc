// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/attention/partial_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/ops/rules.h"
#include "transom/gradients.h"

namespace transom {
namespace {

Tensor drawn_values(const Shape& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (float& value : values) value = static_cast<float>(generator() >> 40) / 0x1p23F - 1.0F;
  return Tensor::from(values, shape);
}

void expect_near_values(const Tensor& x, const Tensor& y) {
  ASSERT_EQ(x.type(), y.type());
  const auto a = x.to_vector<float>(), b = y.to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6 * (1 + std::abs(b[i]))) << i;
}

// The keys of rows, some of which are padding: a row of the batch sees nothing of the first part, and another nothing
// at all, which is the mean of all values.
Tensor hidden_keys(int64_t S) {
  std::vector<float> bias(static_cast<size_t>(3 * S), 0);
  for (int64_t s = 0; s < S; ++s) {
    if (s < 4) bias[static_cast<size_t>(S + s)] = static_cast<float>(kMaskedScore);
    bias[static_cast<size_t>(2 * S + s)] = static_cast<float>(kMaskedScore);
  }
  return Tensor::from(bias, {3, 1, 1, S});
}

// The attention to all keys, and its gradients, from those to the first `first` of them and to the others.
void expect_parts_to_make_the_whole(const AttentionOptions& options, int64_t first) {
  constexpr int64_t B = 3, T = 7, S = 9, H = 4, G = 2, d = 4, e = 3;
  const Tensor q = drawn_values({B, T, H, d}, 1), k = drawn_values({B, S, G, d}, 2), v = drawn_values({B, S, G, e}, 3),
               dy = drawn_values({B, T, H, e}, 4), bias = hidden_keys(S);
  for (const Tensor* leaf : {&q, &k, &v}) Tensor(*leaf).set_requires_grad();
  const Tensor whole = attention(q, k, v, bias, options);
  const std::vector<Tensor> expected = gradients({whole}, {dy}, {q, k, v});
  const NoGradient none;
  const auto part = [&](int64_t begin, int64_t end) {
    return partial_attention(q, slice(k, 1, begin, end), slice(v, 1, begin, end), slice(bias, 3, begin, end), options,
                             S - T - begin);
  };
  const PartialAttention all = joined(part(0, first), part(first, S));
  expect_near_values(all.out, whole);
  const Tensor shift = permute(reduce_sum(dy * all.out, {3}), {0, 2, 1});
  const auto of_part = [&](int64_t begin, int64_t end) {
    return partial_attention_gradients(q, slice(k, 1, begin, end), slice(v, 1, begin, end), slice(bias, 3, begin, end),
                                       all.largest, all.sum, shift, dy, options, S - T - begin);
  };
  const PartialAttentionGradients a = of_part(0, first), b = of_part(first, S);
  expect_near_values(a.q + b.q, expected[0]);
  expect_near_values(concatenate({a.k, b.k}, 1), expected[1]);
  expect_near_values(concatenate({a.v, b.v}, 1), expected[2]);
}

TEST(PartialAttention, PartsMakeTheWhole) {
  for (const int64_t first : {1, 4, 8}) {
    SCOPED_TRACE(first);
    expect_parts_to_make_the_whole({.scale = 0.7, .causal = false}, first);
    expect_parts_to_make_the_whole({.scale = 0.7}, first);
    expect_parts_to_make_the_whole({.scale = 0.7, .sliding_window = 3}, first);
    expect_parts_to_make_the_whole({.scale = 0.7, .soft_cap = 1.5}, first);
  }
}

TEST(PartialAttention, RefusesWhatDoesNotFit) {
  const Tensor q = make_input({DType::kFloat32, {1, 2, 2, 4}}), k = make_input({DType::kFloat32, {1, 3, 2, 4}}),
               none = make_input({DType::kFloat32, {1, 0, 2, 4}});
  EXPECT_THROW(partial_attention(q, none, none, {}, {.scale = 1}, 0), Error);
  const Tensor rows = make_input({DType::kFloat32, {1, 2, 2}}), wrong = make_input({DType::kFloat32, {1, 2, 3}});
  EXPECT_NO_THROW(partial_attention_gradients(q, k, k, {}, rows, rows, rows, q, {.scale = 1}, 0));
  EXPECT_THROW(partial_attention_gradients(q, k, k, {}, rows, wrong, rows, q, {.scale = 1}, 0), Error);
}

}  // namespace
}  // namespace transom
