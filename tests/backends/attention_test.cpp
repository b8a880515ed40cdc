// SPDX-License-Identifier: Apache-2.0
// Attention against its definition, over sizes that fill no register, no pair of numbers and no block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

struct Sizes {
  int64_t B, T, S, H, G, d, e;
};

struct Options {
  double soft_cap = 0;
  bool causal = false;
  int64_t window = 0;
  bool biased = false;
};

struct Inputs {
  Tensor q, k, v, bias;

  Inputs(const Sizes& s, transom_dtype dtype)
      : q(numbers(dtype, {s.B, s.T, s.H, s.d}, -2, 2, 1)),
        k(numbers(dtype, {s.B, s.S, s.G, s.d}, -2, 2, 2)),
        v(numbers(dtype, {s.B, s.S, s.G, s.e}, -2, 2, 3)),
        bias(numbers(TRANSOM_FLOAT32, {s.B, 1, 1, s.S}, -3, 3, 4)) {}
};

double scale_of(const Sizes& s) { return 1 / std::sqrt(static_cast<double>(s.d)); }

Tensor run(const Sizes& s, const Options& o, const Inputs& in) {
  std::vector<Tensor> inputs = {in.q, in.k, in.v};
  if (o.biased) inputs.push_back(in.bias);
  return evaluate("attention", inputs, in.q.dtype, {s.B, s.T, s.H, s.e},
                  {{"scale", scale_of(s)},
                   {"soft_cap", o.soft_cap},
                   {"causal", o.causal ? 1 : 0},
                   {"sliding_window", o.window},
                   {"biased", o.biased ? 1 : 0},
                   {"dropout", 0.0}});
}

std::vector<double> expected(const Sizes& s, const Options& o, const Inputs& in) {
  std::vector<double> y(static_cast<size_t>(s.B * s.T * s.H * s.e));
  const auto at = [](const Tensor& x, int64_t b, int64_t t, int64_t h, int64_t i) {
    return x.values[static_cast<size_t>(((b * x.shape[1] + t) * x.shape[2] + h) * x.shape[3] + i)];
  };
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t t = 0; t < s.T; ++t)
      for (int64_t h = 0; h < s.H; ++h) {
        const int64_t g = h / (s.H / s.G), place = t + s.S - s.T;
        std::vector<double> weights(static_cast<size_t>(s.S));
        double total = 0;
        for (int64_t j = 0; j < s.S; ++j) {
          const bool hidden = o.causal && (j > place || (o.window > 0 && j <= place - o.window));
          if (hidden) continue;
          double score = 0;
          for (int64_t i = 0; i < s.d; ++i) score += at(in.q, b, t, h, i) * at(in.k, b, j, g, i);
          score *= scale_of(s);
          if (o.soft_cap > 0) score = o.soft_cap * std::tanh(score / o.soft_cap);
          if (o.biased) score += in.bias.values[static_cast<size_t>(b * s.S + j)];
          total += weights[static_cast<size_t>(j)] = std::exp(score);
        }
        for (int64_t i = 0; i < s.e; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < s.S; ++j) sum += weights[static_cast<size_t>(j)] / total * at(in.v, b, j, g, i);
          y[static_cast<size_t>(((b * s.T + t) * s.H + h) * s.e + i)] = sum;
        }
      }
  return y;
}

TEST(Attention, OfAllSizes) {
  const Sizes sizes[] = {{1, 1, 5, 2, 2, 4, 4},       {2, 7, 7, 2, 1, 8, 8},     {2, 8, 8, 2, 2, 32, 32},
                         {1, 9, 17, 4, 2, 24, 40},    {2, 40, 40, 3, 3, 32, 32}, {1, 13, 31, 2, 2, 2, 1},
                         {1, 128, 128, 2, 2, 64, 64}, {1, 50, 1, 1, 1, 16, 16},  {2, 11, 33, 2, 1, 7, 5},
                         {1, 200, 200, 1, 1, 80, 80}, {1, 24, 300, 6, 2, 6, 48}};
  const Options options[] = {{},
                             {.biased = true},
                             {.causal = true},
                             {.soft_cap = 3, .causal = true, .biased = true},
                             {.causal = true, .window = 5}};
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const Sizes& s : sizes) {
      const Inputs inputs(s, dtype);
      for (const Options& o : options) {
        if (o.causal && s.T > s.S) continue;
        const Tensor y = run(s, o, inputs);
        EXPECT_LE(difference(y, expected(s, o, inputs)), 4 * tolerance(dtype))
            << dtype << ": " << s.T << " queries, " << s.S << " keys of " << s.d << " and " << s.e << ", causal "
            << o.causal << ", window " << o.window << ", bias " << o.biased;
      }
    }
}

// What lies behind a head's last number belongs to another one.
TEST(Attention, NumbersThatAreNoneStayInTheirHead) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const Sizes s = {2, 9, 13, 2, 2, 6, 5};
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16}) {
    const Inputs whole(s, dtype);
    const Tensor y = run(s, {}, whole);
    Inputs spoiled = whole;
    for (Tensor* x : {&spoiled.q, &spoiled.k, &spoiled.v})  // of the first row, the last head; and all of batch 1
      for (size_t i = 0; i < x->values.size(); ++i) {
        const auto width = static_cast<size_t>(x->shape[3]), batch = x->values.size() / 2;
        if (i >= batch || i / width == 1) x->values[i] = none;
      }
    const Tensor found = run(s, {}, spoiled);
    for (size_t i = 0; i < y.values.size() / 2; ++i) {
      if (i / 5 % 2 == 0) EXPECT_EQ(found.values[i], y.values[i]) << dtype << " " << i;
      else EXPECT_TRUE(std::isnan(found.values[i])) << dtype << " " << i;
    }
  }
}

}  // namespace
}  // namespace transom::backend_test
