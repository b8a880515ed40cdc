// SPDX-License-Identifier: Apache-2.0
// Rows whose bits do not depend on the other rows: products and convolutions with the attribute batch_invariant, and
// attention to blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

Tensor rows_between(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t width = x.count() / x.shape[0];
  Tensor part{x.dtype, x.shape, {x.values.begin() + begin * width, x.values.begin() + end * width}};
  part.shape[0] = end - begin;
  return part;
}

struct BatchSizes {
  int64_t n, k;
};
constexpr BatchSizes kSizes[] = {{1, 1}, {5, 3}, {64, 33}, {131, 70}, {530, 128}, {40, 2500}};

Tensor linear_of(const Tensor& x, const Tensor& w, const Tensor* b, bool frozen) {
  Graph graph;
  std::vector<int> inputs{graph.input(x), graph.input(w, frozen)};
  std::vector<Tensor> values{x, w};
  if (b) inputs.push_back(graph.input(*b)), values.push_back(*b);
  graph.output(graph.node("linear", inputs, x.dtype, {x.shape[0], w.shape[0]}, {{"batch_invariant", 1}}));
  Program program(Plugin::cpu(), graph);
  std::vector<Tensor> results = program.run(values);
  EXPECT_EQ(program.error, "");
  return results.at(0);
}

TEST(BatchInvariance, LinearGivesARowTheSameBitsInAnyBatch) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const auto [n, k] : kSizes) {
      const Tensor x = numbers(dtype, {203, k}, -1, 1, 1), w = numbers(dtype, {n, k}, -1, 1, 2),
                   b = numbers(dtype, {n}, -1, 1, 3);
      const Tensor all = linear_of(x, w, &b, false);
      for (int64_t i = 0; i < 203; i += 41)
        for (int64_t j = 0; j < n; ++j) {
          double sum = b.values[static_cast<size_t>(j)];
          for (int64_t l = 0; l < k; ++l)
            sum += x.values[static_cast<size_t>(i * k + l)] * w.values[static_cast<size_t>(j * k + l)];
          EXPECT_NEAR(all.values[static_cast<size_t>(i * n + j)], sum,
                      8 * tolerance(dtype) * (1 + std::sqrt(static_cast<double>(k))));
        }
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1},
                                       {7, 8},
                                       {3, 5},
                                       {10, 13},
                                       {20, 24},
                                       {1, 6},
                                       {90, 97},
                                       {30, 38},
                                       {60, 76},
                                       {100, 109},
                                       {50, 150},
                                       {202, 203}})
        for (const bool frozen : {false, true})
          EXPECT_EQ(linear_of(rows_between(x, begin, end), w, &b, frozen).values, rows_between(all, begin, end).values)
              << dtype << " " << n << " " << k << " rows " << begin << " to " << end;
    }
}

// So many rows are dealt to the threads in stretches.
TEST(BatchInvariance, LinearOfManyRowsGivesThemTheSameBits) {
  const int64_t n = 150, k = 40;
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    const Tensor x = numbers(dtype, {2100, k}, -1, 1, 1), w = numbers(dtype, {n, k}, -1, 1, 2),
                 b = numbers(dtype, {n}, -1, 1, 3);
    const Tensor all = linear_of(x, w, &b, true);
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>{0, 1}, {250, 270}, {511, 514}, {1000, 1200}, {2099, 2100}})
      EXPECT_EQ(linear_of(rows_between(x, begin, end), w, &b, false).values, rows_between(all, begin, end).values)
          << dtype << " rows " << begin << " to " << end;
  }
}

// What a row of one 1 gives is a column of the weight, to the bit: each number of the packed weight is where it
// belongs.
TEST(BatchInvariance, LinearPacksEachNumberOfAWeight) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const auto [n, k] : {BatchSizes{16, 32}, {8, 8}, {7, 9}, {23, 41}, {64, 63}, {37, 200}}) {
      const Tensor w = numbers(dtype, {n, k}, -1, 1, 2);
      Tensor one_each{dtype, {k, k}, std::vector<double>(static_cast<size_t>(k * k))}, turned{dtype, {k, n}, {}};
      for (int64_t i = 0; i < k; ++i) {
        one_each.values[static_cast<size_t>(i * k + i)] = 1;
        for (int64_t j = 0; j < n; ++j) turned.values.push_back(w.values[static_cast<size_t>(j * k + i)]);
      }
      for (const bool frozen : {false, true})
        EXPECT_EQ(linear_of(one_each, w, nullptr, frozen).values, turned.values) << dtype << " " << n << " " << k;
    }
}

// Weights of f32 that bf16 holds are kept in bf16; those that look like it at first are not.
TEST(BatchInvariance, LinearHasTheSameBitsHoweverItsWeightIsKept) {
  for (const auto [n, k] : kSizes) {
    const Tensor x = numbers(TRANSOM_FLOAT32, {30, k}, -1, 1, 1);
    Tensor w = numbers(TRANSOM_BFLOAT16, {n, k}, -1, 1, 2);
    w.dtype = TRANSOM_FLOAT32;
    for (const double more : {0.0, 0x1p-20}) {
      w.values.back() = 1 + more;
      const Tensor all = linear_of(x, w, nullptr, false);
      EXPECT_EQ(linear_of(x, w, nullptr, true).values, all.values) << n << " " << k << " " << more;
      for (const int64_t row : {0, 29})
        EXPECT_EQ(linear_of(rows_between(x, row, row + 1), w, nullptr, true).values,
                  rows_between(all, row, row + 1).values)
            << n << " " << k << " " << more;
    }
  }
}

// Each head reads a matrix of its own, as latent keys and values are read.
TEST(BatchInvariance, SeveralProductsGiveARowTheSameBits) {
  const int64_t heads = 3, n = 37, k = 21, rows = 40;
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
    for (const bool turned : {false, true}) {
      const Tensor x = numbers(dtype, {rows, heads, k}, -1, 1, 1),
                   w = numbers(dtype, turned ? Shape{heads, n, k} : Shape{heads, k, n}, -1, 1, 2);
      const auto dot = [&](const Tensor& some) {
        return evaluate("dot_general", {some, w}, dtype, {heads, some.shape[0], n},
                        {{"x_batch", Shape{1}},
                         {"y_batch", Shape{0}},
                         {"x_contract", Shape{2}},
                         {"y_contract", Shape{turned ? 2 : 1}},
                         {"batch_invariant", 1}})
            .values;
      };
      const std::vector<double> all = dot(x);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {7, 8}, {3, 8}, {10, 30}}) {
        const std::vector<double> some = dot(rows_between(x, begin, end));
        for (int64_t head = 0; head < heads; ++head)
          for (int64_t i = begin; i < end; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const double found = all[static_cast<size_t>((head * rows + i) * n + j)];
              EXPECT_EQ(some[static_cast<size_t>((head * (end - begin) + i - begin) * n + j)], found);
              double sum = 0;
              for (int64_t l = 0; l < k; ++l)
                sum += x.values[static_cast<size_t>((i * heads + head) * k + l)] *
                       w.values[static_cast<size_t>(turned ? (head * n + j) * k + l : (head * k + l) * n + j)];
              EXPECT_NEAR(found, sum, 8 * tolerance(dtype) * (1 + std::sqrt(static_cast<double>(k))));
            }
      }
    }
}

TEST(BatchInvariance, DotGeneralReadsAWeightEitherWayRound) {
  const int64_t n = 70, k = 45;
  const Tensor x = numbers(TRANSOM_FLOAT32, {19, k}, -1, 1, 1), w = numbers(TRANSOM_FLOAT32, {k, n}, -1, 1, 2);
  Tensor turned{TRANSOM_FLOAT32, {n, k}, std::vector<double>(static_cast<size_t>(n * k))};
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j)
      turned.values[static_cast<size_t>(j * k + i)] = w.values[static_cast<size_t>(i * n + j)];
  const auto dot = [&](const Tensor& some) {
    return evaluate("dot_general", {some, w}, TRANSOM_FLOAT32, {some.shape[0], n},
                    {{"x_batch", Shape{}},
                     {"y_batch", Shape{}},
                     {"x_contract", Shape{1}},
                     {"y_contract", Shape{0}},
                     {"dtype", TRANSOM_FLOAT32},
                     {"batch_invariant", 1}});
  };
  const Tensor all = dot(x);
  EXPECT_EQ(all.values, linear_of(x, turned, nullptr, false).values);
  EXPECT_EQ(dot(rows_between(x, 4, 5)).values, rows_between(all, 4, 5).values);
}

struct InvariantConvolution {
  int64_t channels, results, extent, window, stride, padding, groups;
};

Tensor convolution_of(const Tensor& x, const Tensor& w, const InvariantConvolution& c, bool frozen) {
  Graph graph;
  const std::vector<int> inputs{graph.input(x), graph.input(w, frozen)};
  const int64_t out = (c.extent + 2 * c.padding - c.window) / c.stride + 1;
  graph.output(graph.node("convolution", inputs, x.dtype, {x.shape[0], c.results, out, out},
                          {{"strides", Shape{c.stride, c.stride}},
                           {"low", Shape{c.padding, c.padding}},
                           {"high", Shape{c.padding, c.padding}},
                           {"dilations", Shape{1, 1}},
                           {"groups", c.groups},
                           {"batch_invariant", 1}}));
  Program program(Plugin::cpu(), graph);
  const std::vector<Tensor> results = program.run({x, w});
  EXPECT_EQ(program.error, "");
  return results.at(0);
}

// The number of images changes how the library cuts the work: windows of 3x3 by tiles, of one place by bands, with
// strides, in groups and on maps of few places.
TEST(BatchInvariance, ConvolutionGivesAnImageTheSameBits) {
  const InvariantConvolution cases[] = {{64, 64, 16, 3, 1, 1, 1}, {64, 48, 8, 1, 1, 0, 1}, {32, 64, 9, 3, 2, 1, 1},
                                        {32, 32, 7, 3, 1, 1, 32}, {64, 32, 6, 3, 1, 1, 2}, {96, 64, 1, 3, 1, 1, 1},
                                        {4, 20, 5, 3, 1, 1, 1},   {20, 4, 8, 3, 1, 1, 1},  {24, 32, 8, 4, 4, 0, 1}};
  for (const InvariantConvolution& c : cases)
    for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16})
      for (const bool frozen : {false, true}) {
        const Tensor x = numbers(dtype, {5, c.channels, c.extent, c.extent}, -1, 1, 1),
                     w = numbers(dtype, {c.results, c.channels / c.groups, c.window, c.window}, -1, 1, 2);
        const Tensor all = convolution_of(x, w, c, frozen);
        for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {4, 5}, {1, 3}, {0, 4}})
          EXPECT_EQ(convolution_of(rows_between(x, begin, end), w, c, frozen).values,
                    rows_between(all, begin, end).values)
              << dtype << " " << c.channels << " " << c.extent << " images " << begin << " to " << end;
      }
}

// ---- attention to blocks

struct Paged {
  int64_t H = 4, G = 2, d = 20, e = 12, size = 4, window = 0;
  double cap = 0;
  transom_dtype dtype = TRANSOM_FLOAT32, kept = TRANSOM_FLOAT32;  // of queries, of the blocks
  Tensor k, v;
  std::vector<std::vector<double>> texts = {{7, 2, 9, 4, 11}, {1, 0, 3, 5, 6}};  // their blocks

  Paged() = default;
  void fill() {
    k = numbers(kept, {12, size, G, d}, -1, 1, 5);
    v = numbers(kept, {12, size, G, e}, -1, 1, 6);
  }
  Tensor run(const Tensor& q, const std::vector<int>& of, const std::vector<double>& lengths) const {
    const auto n = static_cast<int64_t>(of.size());
    Tensor table{TRANSOM_INT32, {n, 5}, {}};
    for (const int text : of)
      table.values.insert(table.values.end(), texts[static_cast<size_t>(text)].begin(),
                          texts[static_cast<size_t>(text)].end());
    return evaluate("paged_attention", {q, k, v, table, Tensor{TRANSOM_INT32, {n}, lengths}}, dtype, {n, 1, H, e},
                    {{"scale", 0.3}, {"sliding_window", window}, {"soft_cap", cap}});
  }
  double expected(const Tensor& q, int64_t row, int text, int64_t length, int64_t h, int64_t c) const {
    const int64_t from = window > 0 ? std::max<int64_t>(length - window, 0) : 0, g = h / (H / G);
    std::vector<double> scores;
    const auto place = [&](int64_t s) {
      return static_cast<int64_t>(texts[static_cast<size_t>(text)][static_cast<size_t>(s / size)]) * size + s % size;
    };
    for (int64_t s = from; s < length; ++s) {
      double score = 0;
      for (int64_t i = 0; i < d; ++i)
        score += q.values[static_cast<size_t>((row * H + h) * d + i)] *
                 k.values[static_cast<size_t>((place(s) * G + g) * d + i)];
      score *= 0.3;
      scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double total = 0, mixed = 0;
    for (int64_t s = from; s < length; ++s) {
      const double weight = std::exp(scores[static_cast<size_t>(s - from)] - most);
      total += weight;
      mixed += weight * v.values[static_cast<size_t>((place(s) * G + g) * e + c)];
    }
    return mixed / total;
  }
};

TEST(BatchInvariance, AttentionToBlocksReadsWhatARowHas) {
  // The rows 1 to 10 are a chunk of one text.
  std::vector<int> of{1};
  std::vector<double> lengths{17};
  for (int i = 0; i < 10; ++i) of.push_back(0), lengths.push_back(6 + i);
  of.push_back(0), lengths.push_back(1);
  of.push_back(1), lengths.push_back(20);
  const auto n = static_cast<int64_t>(of.size());
  for (const auto& [dtype, kept] :
       {std::pair{TRANSOM_FLOAT32, TRANSOM_FLOAT32}, std::pair{TRANSOM_BFLOAT16, TRANSOM_BFLOAT16},
        std::pair{TRANSOM_FLOAT16, TRANSOM_FLOAT16}, std::pair{TRANSOM_FLOAT32, TRANSOM_FLOAT16},
        std::pair{TRANSOM_FLOAT32, TRANSOM_BFLOAT16}, std::pair{TRANSOM_BFLOAT16, TRANSOM_FLOAT32}})
    for (const int64_t window : {0, 5})
      for (const double cap : {0.0, 0.5}) {
        Paged paged;
        paged.dtype = dtype, paged.kept = kept, paged.window = window, paged.cap = cap;
        paged.fill();
        const Tensor q = numbers(dtype, {n, 1, 4, 20}, -1, 1, 7);
        const Tensor all = paged.run(q, of, lengths);
        for (int64_t row = 0; row < n; ++row) {
          const auto i = static_cast<size_t>(row);
          for (int64_t h = 0; h < 4; ++h)
            for (const int64_t c : {0, 11})
              EXPECT_NEAR(all.values[static_cast<size_t>((row * 4 + h) * 12 + c)],
                          paged.expected(q, row, of[i], static_cast<int64_t>(lengths[i]), h, c), 10 * tolerance(dtype))
                  << dtype << " beside " << kept;
          EXPECT_EQ(paged.run(rows_between(q, row, row + 1), {of[i]}, {lengths[i]}).values,
                    rows_between(all, row, row + 1).values)
              << dtype << " beside " << kept << " window " << window << " row " << row;
        }
      }
}

// What a server samples and what a training pass computes: the same text, in pages or in a row with padding in front of
// it and behind.
TEST(BatchInvariance, AttentionWithoutPagesHasTheBitsOfPages) {
  const int64_t T = 17, H = 4, d = 20, e = 12;
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const int64_t window : {0, 5})
      for (const int64_t front : {0, 3}) {
        Paged paged;
        paged.dtype = paged.kept = dtype, paged.window = window, paged.texts = {{0, 1, 2, 3, 4}};
        paged.fill();
        const Tensor q = numbers(dtype, {T, 1, H, d}, -1, 1, 7);
        std::vector<double> lengths;
        for (int64_t t = 0; t < T; ++t) lengths.push_back(static_cast<double>(t + 1));
        const Tensor expected = paged.run(q, std::vector<int>(static_cast<size_t>(T), 0), lengths);
        const int64_t S = front + T + 2;
        const auto padded = [&](const Tensor& rows, int64_t heads, int64_t width) {
          const int64_t each = heads * width;
          Tensor all{dtype, {1, S, heads, width}, std::vector<double>(static_cast<size_t>(S * each), 0.5)};
          std::copy_n(rows.values.begin(), T * each, all.values.begin() + front * each);
          return all;
        };
        Tensor bias{TRANSOM_FLOAT32, {1, 1, 1, S}, std::vector<double>(static_cast<size_t>(S), -3.3895313892515355e38)};
        std::fill_n(bias.values.begin() + front, T, 0.0);
        const Tensor found = evaluate(
            "attention", {padded(q, H, d), padded(paged.k, 2, d), padded(paged.v, 2, e), bias}, dtype, {1, S, H, e},
            {{"scale", 0.3},
             {"causal", 1},
             {"sliding_window", window},
             {"soft_cap", 0.0},
             {"dropout", 0.0},
             {"biased", 1},
             {"batch_invariant", 1}});
        const auto begin = found.values.begin() + front * H * e;
        EXPECT_EQ(std::vector<double>(begin, begin + T * H * e), expected.values)
            << dtype << " window " << window << " behind " << front;
      }
}

TEST(BatchInvariance, AttentionDoesNotShowTheSizeOfBlocks) {
  Paged small;
  small.texts = {{0, 1, 2, 3, 4}};
  small.fill();
  Paged large = small;
  large.size = 20, large.texts = {{0, 0, 0, 0, 0}};
  large.k = {TRANSOM_FLOAT32, {1, 20, 2, 20}, {small.k.values.begin(), small.k.values.begin() + 20 * 40}};
  large.v = {TRANSOM_FLOAT32, {1, 20, 2, 12}, {small.v.values.begin(), small.v.values.begin() + 20 * 24}};
  const Tensor q = numbers(TRANSOM_FLOAT32, {1, 1, 4, 20}, -1, 1, 7);
  for (const double length : {1, 3, 4, 5, 19, 20})
    EXPECT_EQ(small.run(q, {0}, {length}).values, large.run(q, {0}, {length}).values) << length;
}

}  // namespace
}  // namespace transom::backend_test
