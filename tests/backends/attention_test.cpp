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
  const Sizes sizes[] = {{1, 1, 5, 2, 2, 4, 4},       {2, 7, 7, 2, 1, 8, 8},       {2, 8, 8, 2, 2, 32, 32},
                         {1, 9, 17, 4, 2, 24, 40},    {2, 40, 40, 3, 3, 32, 32},   {1, 13, 31, 2, 2, 2, 1},
                         {1, 128, 128, 2, 2, 64, 64}, {1, 50, 1, 1, 1, 16, 16},    {2, 11, 33, 2, 1, 7, 5},
                         {1, 200, 200, 1, 1, 80, 80}, {1, 24, 300, 6, 2, 6, 48},   {2, 130, 700, 2, 1, 20, 24},
                         {1, 70, 333, 4, 2, 32, 64},  {1, 161, 161, 2, 1, 64, 96},  // whole tiles of numbers
                         {1, 330, 400, 2, 2, 16, 9}};                               // several blocks of queries
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

// A product of large numbers loses more in rounding than the exponential bears; and a factor below 0 turns the order.
TEST(Attention, OfLargeScoresAndAnyFactor) {
  const Sizes s{1, 9, 21, 1, 1, 4, 4};
  for (const double magnitude : {1.0, 1e3, 1e12})
    for (const double factor : {0.37, 1e-3, 0.0, -0.37}) {
      Inputs in(s, TRANSOM_FLOAT32);
      for (size_t i = 0; i < in.q.values.size(); ++i) in.q.values[i] = i % 4 == 0 ? magnitude : 0;
      for (size_t i = 0; i < in.k.values.size(); ++i) in.k.values[i] = static_cast<double>((i / 4 * 7 % 21) + 1);
      const Tensor y = evaluate("attention", {in.q, in.k, in.v}, TRANSOM_FLOAT32, {s.B, s.T, s.H, s.e},
                                {{"scale", factor},
                                 {"soft_cap", 0.0},
                                 {"causal", 0},
                                 {"sliding_window", 0},
                                 {"biased", 0},
                                 {"dropout", 0.0}});
      double largest = -1e300, total = 0;
      std::vector<double> weights, mixed(4);
      for (int64_t j = 0; j < s.S; ++j) weights.push_back(magnitude * static_cast<double>(j * 7 % 21 + 1) * factor);
      for (const double score : weights) largest = std::max(largest, score);
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (size_t j = 0; j < weights.size(); ++j)
        for (size_t i = 0; i < 4; ++i) mixed[i] += weights[j] / total * in.v.values[j * 4 + i];
      std::vector<double> all;
      for (int64_t t = 0; t < s.T; ++t) all.insert(all.end(), mixed.begin(), mixed.end());
      EXPECT_LE(difference(y, all), 1e-3) << magnitude << " times " << factor;
    }
}

// ---- few queries, as decoding has them

constexpr double kHidden = -3.3895313892515355e38;  // transom/ops.h

// The cache of a row: places [first, end) are shown.
struct Cached {
  Sizes sizes;
  int64_t first, end;
};

Inputs cached(const Cached& c, transom_dtype dtype) {
  Inputs in(c.sizes, dtype);
  for (int64_t b = 0; b < c.sizes.B; ++b)
    for (int64_t s = 0; s < c.sizes.S; ++s)
      in.bias.values[static_cast<size_t>(b * c.sizes.S + s)] = s >= c.first && s < c.end ? 0 : kHidden;
  return in;
}

TEST(AttentionOfFewQueries, SeesWhatTheBiasShows) {
  const Cached cases[] = {{{1, 1, 64, 4, 2, 64, 64}, 0, 17},
                          {{3, 1, 128, 12, 12, 16, 24}, 5, 100},
                          {{2, 4, 33, 16, 1, 7, 5}, 0, 33},
                          {{2, 3, 40, 20, 2, 80, 128}, 39, 40},
                          {{1, 2, 16, 9, 3, 33, 66}, 0, 1}};
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const Cached& c : cases) {
      const Inputs in = cached(c, dtype);
      const double found = difference(run(c.sizes, {.biased = true}, in), expected(c.sizes, {.biased = true}, in));
      EXPECT_LE(found, 4 * tolerance(dtype)) << dtype << ": " << c.sizes.S << " keys, " << c.sizes.H << " heads";
    }
}

TEST(AttentionOfFewQueries, CountsAllAlikeWhereNothingIsShown) {
  const Sizes s = {1, 1, 10, 4, 2, 8, 8};
  const Inputs in = cached({s, 0, 0}, TRANSOM_FLOAT32);
  const Tensor y = run(s, {.biased = true}, in);
  for (int64_t h = 0; h < s.H; ++h)
    for (int64_t i = 0; i < s.e; ++i) {
      double mean = 0;
      for (int64_t j = 0; j < s.S; ++j) mean += in.v.values[static_cast<size_t>((j * s.G + h / 2) * s.e + i)] / 10;
      EXPECT_NEAR(y.values[static_cast<size_t>(h * s.e + i)], mean, 1e-5);
    }
}

// Neither what a cache has room for nor the rows beside it show in the bits of a row.
TEST(AttentionOfFewQueries, ARowHasTheBitsThatItHasAlone) {
  const Sizes together = {3, 1, 96, 8, 2, 67, 70}, alone = {1, 1, 48, 8, 2, 67, 70};
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16}) {
    const Inputs all = cached({together, 3, 41}, dtype);
    const Tensor y = run(together, {.biased = true}, all);
    for (int64_t b = 0; b < together.B; ++b) {
      Inputs own = cached({alone, 3, 41}, dtype);
      const auto take = [&](Tensor& to, const Tensor& from) {
        const auto count = to.values.size(), row = from.values.size() / 3;
        std::copy_n(from.values.begin() + static_cast<ptrdiff_t>(row * static_cast<size_t>(b)), count,
                    to.values.begin());
      };
      take(own.q, all.q), take(own.k, all.k), take(own.v, all.v);
      const Tensor found = run(alone, {.biased = true}, own);
      const auto begin = y.values.begin() + b * static_cast<ptrdiff_t>(found.values.size());
      EXPECT_TRUE(std::equal(found.values.begin(), found.values.end(), begin)) << dtype << ", row " << b;
    }
  }
}

// -infinity hides a key; a query to which it hides all of them has no weights, as in the softmax that it stands for.
TEST(Attention, OfARowThatInfinityHidesIsNotANumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const int64_t queries : {1, 3, 8, 40})
      for (const int64_t keys : {1, 2, 9, 40}) {
        const Sizes s = {2, queries, keys, 2, 1, 8, 4};
        Inputs in(s, dtype);
        for (size_t i = 0; i < in.bias.values.size(); ++i)
          in.bias.values[i] = i < static_cast<size_t>(keys) ? 0 : -infinity;
        const Tensor y = run(s, {.biased = true}, in);
        for (size_t i = 0; i < y.values.size(); ++i)
          EXPECT_EQ(std::isnan(y.values[i]), i >= y.values.size() / 2) << dtype << ": " << queries << ", " << keys;
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

// ---- several texts in a row

// [1, T, 2]: where the text of each token begins and ends.
Tensor ranges_of(const std::vector<int64_t>& lengths) {
  std::vector<double> ranges;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i)
      ranges.insert(ranges.end(), {static_cast<double>(begin), static_cast<double>(begin + length)});
    begin += length;
  }
  return tensor(TRANSOM_INT64, {1, begin, 2}, std::move(ranges));
}

std::vector<Tensor> in_ranges(const char* op, const Sizes& s, std::vector<Tensor> inputs, transom_dtype dtype,
                              bool causal) {
  for (Tensor& input : inputs)
    if (input.dtype != TRANSOM_INT64) input.dtype = dtype;
  std::vector<std::pair<transom_dtype, Shape>> types = {{dtype, {s.B, s.T, s.H, s.e}}};
  if (inputs.size() > 4) types = {{dtype, inputs[0].shape}, {dtype, inputs[1].shape}, {dtype, inputs[2].shape}};
  return evaluate(op, inputs, types,
                  {{"scale", scale_of(s)},
                   {"soft_cap", 0.0},
                   {"causal", causal ? 1 : 0},
                   {"sliding_window", 0},
                   {"biased", 0},
                   {"dropout", 0.0}});
}

// Numbers of bf16 are multiplied by other loops than those of f32: by pairs, or by tiles of 32 where there are such.
TEST(RangedAttention, OfNarrowNumbersIsThatOfWideOnes) {
  const std::vector<int64_t> lengths[] = {{1, 17, 150, 33, 64, 100}, {128}, {3, 5}, {31, 32, 33}};
  for (const std::vector<int64_t>& each : lengths) {
    const Tensor ranges = ranges_of(each);
    const int64_t T = ranges.shape[1];
    for (const Sizes& s : {Sizes{1, T, T, 4, 2, 64, 64}, Sizes{1, T, T, 2, 1, 32, 96}, Sizes{1, T, T, 2, 2, 20, 24}}) {
      const Inputs in(s, TRANSOM_BFLOAT16);
      const Tensor dy = numbers(TRANSOM_BFLOAT16, {s.B, s.T, s.H, s.e}, -1, 1, 9);
      for (const bool causal : {false, true})
        for (const bool back : {false, true}) {
          std::vector<Tensor> inputs = {in.q, in.k, in.v, ranges};
          if (back) inputs.push_back(dy);
          const char* op = back ? "ranged_attention_gradient" : "ranged_attention";
          const auto narrow = in_ranges(op, s, inputs, TRANSOM_BFLOAT16, causal),
                     wide = in_ranges(op, s, inputs, TRANSOM_FLOAT32, causal);
          ASSERT_EQ(narrow.size(), wide.size());
          for (size_t i = 0; i < wide.size(); ++i)
            EXPECT_LE(difference(narrow[i], wide[i].values), 4 * tolerance(TRANSOM_BFLOAT16))
                << op << " " << i << " of " << T << " tokens, heads of " << s.d << " and " << s.e << ", causal "
                << causal;
        }
    }
  }
}

}  // namespace
}  // namespace transom::backend_test
