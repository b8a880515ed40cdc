// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

// x [.., K] w [N, K] b [N] as plain loops; rows is the product of the leading extents.
std::vector<double> linear(const Tensor& x, const Tensor& w, const Tensor* b) {
  const int64_t k = w.shape[1], n = w.shape[0], m = k ? x.count() / k : 1;
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = b ? b->values[static_cast<size_t>(j)] : 0;
      for (int64_t l = 0; l < k; ++l)
        sum += x.values[static_cast<size_t>(i * k + l)] * w.values[static_cast<size_t>(j * k + l)];
      y.push_back(sum);
    }
  return y;
}

TEST(Products, LinearOfAllRowCounts) {
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    for (int64_t m : {0, 1, 2, 3, 5, 8, 9, 17, 130}) {
      for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {64, 33}, {131, 70}, {257, 128}}) {
        const Tensor x = numbers(dtype, {m, k}, -1, 1, 1), w = numbers(dtype, {n, k}, -1, 1, 2),
                     b = numbers(dtype, {n}, -1, 1, 3);
        const Tensor y = evaluate("linear", {x, w, b}, dtype, {m, n});
        EXPECT_LE(difference(y, linear(x, w, &b)), 4 * tolerance(dtype)) << dtype << " " << m << " " << n << " " << k;
        const Tensor z = evaluate("linear", {x, w}, dtype, {m, n});
        EXPECT_LE(difference(z, linear(x, w, nullptr)), 4 * tolerance(dtype))
            << dtype << " " << m << " " << n << " " << k;
      }
    }
  }
}

// Requests that are answered together get the answers that they get one by one.
TEST(Products, AFewRowsHaveTheBitsThatEachHasAlone) {
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_FLOAT16})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{13, 40}, {9, 1151}, {7, 3000}}) {
      const Tensor all = numbers(dtype, {8, k}, -1, 1, 1), w = numbers(dtype, {n, k}, -1, 1, 2);
      for (const int64_t m : {2, 3, 4, 5, 6, 7, 8}) {
        Tensor x = all;
        x.shape = {m, k}, x.values.resize(static_cast<size_t>(m * k));
        const Tensor y = evaluate("linear", {x, w}, dtype, {m, n});
        for (int64_t i = 0; i < m; ++i) {
          const auto begin = x.values.begin() + i * k;
          const Tensor alone = evaluate("linear", {tensor(dtype, {1, k}, {begin, begin + k}), w}, dtype, {1, n});
          EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), y.values.begin() + i * n))
              << dtype << ": row " << i << " of " << m << ", " << n << " x " << k;
        }
      }
    }
}

// Any axes: the expected value by loops over the index spaces of batch, x, y and contracted axes.
std::vector<double> dot_general(const Tensor& x, const Tensor& y, const Shape& xb, const Shape& yb, const Shape& xk,
                                const Shape& yk, Shape& out_shape) {
  const auto strides = [](const Shape& shape) {
    Shape result(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) result[i - 1] = result[i] * shape[i];
    return result;
  };
  const auto free_axes = [](const Tensor& t, const Shape& b, const Shape& k) {
    Shape rest;
    for (int64_t axis = 0; axis < static_cast<int64_t>(t.shape.size()); ++axis) {
      bool used = false;
      for (int64_t other : b) used |= other == axis;
      for (int64_t other : k) used |= other == axis;
      if (!used) rest.push_back(axis);
    }
    return rest;
  };
  const auto offsets = [&](const Tensor& t, const Shape& axes) {
    Shape result = {0};
    const Shape step = strides(t.shape);
    for (int64_t axis : axes) {
      Shape next;
      for (int64_t base : result)
        for (int64_t i = 0; i < t.shape[static_cast<size_t>(axis)]; ++i)
          next.push_back(base + i * step[static_cast<size_t>(axis)]);
      result = next;
    }
    return result;
  };
  const Shape xm = free_axes(x, xb, xk), yn = free_axes(y, yb, yk);
  for (int64_t axis : xb) out_shape.push_back(x.shape[static_cast<size_t>(axis)]);
  for (int64_t axis : xm) out_shape.push_back(x.shape[static_cast<size_t>(axis)]);
  for (int64_t axis : yn) out_shape.push_back(y.shape[static_cast<size_t>(axis)]);
  const Shape bx = offsets(x, xb), by = offsets(y, yb), mx = offsets(x, xm), ny = offsets(y, yn), kx = offsets(x, xk),
              ky = offsets(y, yk);
  std::vector<double> result;
  for (size_t b = 0; b < bx.size(); ++b)
    for (int64_t m : mx)
      for (int64_t n : ny) {
        double sum = 0;
        for (size_t k = 0; k < kx.size(); ++k)
          sum += x.values[static_cast<size_t>(bx[b] + m + kx[k])] * y.values[static_cast<size_t>(by[b] + n + ky[k])];
        result.push_back(sum);
      }
  return result;
}

struct ProductCase {
  Shape x, y, x_batch, y_batch, x_contract, y_contract;
};

const ProductCase kProductCases[] = {
    {{7, 5}, {5, 9}, {}, {}, {1}, {0}},
    {{7, 5}, {9, 5}, {}, {}, {1}, {1}},
    {{5, 7}, {5, 9}, {}, {}, {0}, {0}},
    {{5}, {5}, {}, {}, {0}, {0}},
    {{2, 3}, {4}, {}, {}, {}, {}},                               // outer product
    {{2, 11, 3, 8}, {2, 13, 3, 8}, {0, 2}, {0, 2}, {3}, {3}},    // attention scores from [B, T, H, d]
    {{2, 3, 11, 13}, {2, 13, 3, 8}, {0, 1}, {0, 2}, {3}, {1}},   // probabilities with values [B, S, H, d]
    {{2, 11, 6}, {2, 11, 5}, {}, {}, {0, 1}, {0, 1}},            // weight gradient
    {{2, 3, 4, 5}, {4, 2, 5, 6}, {}, {}, {0, 2, 3}, {1, 0, 2}},  // contracted axes in another order
    {{3, 4, 5}, {5, 4, 6}, {1}, {1}, {2}, {0}},
    {{4, 3, 5}, {6, 5, 3}, {1}, {2}, {2}, {1}},  // batch axis last
    {{40, 33}, {33, 300}, {}, {}, {1}, {0}},
    {{9, 27, 20}, {9, 27, 20}, {0}, {0}, {2}, {2}},             // many small ones: pairs of features
    {{5, 3, 7, 32}, {5, 3, 32, 48}, {0, 1}, {0, 1}, {3}, {2}},  // columns that fill their panels
    {{0, 5}, {5, 9}, {}, {}, {1}, {0}},
    {{3, 0}, {0, 4}, {}, {}, {1}, {0}},  // nothing to sum: zeros
    {{1, 1}, {1, 1}, {}, {}, {1}, {0}},
};

TEST(Products, DotGeneralOverAnyAxes) {
  for (transom_dtype dtype :
       {TRANSOM_FLOAT32, TRANSOM_FLOAT64, TRANSOM_BFLOAT16, TRANSOM_FLOAT16, TRANSOM_INT32, TRANSOM_INT64}) {
    for (const ProductCase& c : kProductCases) {
      const bool integer = dtype < TRANSOM_FLOAT16;
      const Tensor x = numbers(dtype, c.x, integer ? -9 : -1, integer ? 9 : 1, 1),
                   y = numbers(dtype, c.y, integer ? -9 : -1, integer ? 9 : 1, 2);
      Shape shape;
      const std::vector<double> expected = dot_general(x, y, c.x_batch, c.y_batch, c.x_contract, c.y_contract, shape);
      const auto run = [&](transom_dtype output) {
        return evaluate("dot_general", {x, y}, output, shape,
                        {{"x_batch", c.x_batch},
                         {"y_batch", c.y_batch},
                         {"x_contract", c.x_contract},
                         {"y_contract", c.y_contract},
                         {"dtype", output}});
      };
      EXPECT_LE(difference(run(dtype), expected), 4 * tolerance(dtype)) << dtype << " case " << &c - kProductCases;
      if (dtype == TRANSOM_BFLOAT16 || dtype == TRANSOM_FLOAT16) {
        EXPECT_LE(difference(run(TRANSOM_FLOAT32), expected), 1e-5) << dtype << " to f32, case " << &c - kProductCases;
      }
    }
  }
}

// A weight in memory of its own that programs share, as a file's.
class ImportedWeight {
 public:
  explicit ImportedWeight(const Tensor& w) : bytes_(w.values.size() * element_size(w.dtype)) {
    encode(w, bytes_.data());
    transom_error error{};
    EXPECT_EQ(plugin_.table.buffer_import(plugin_.device, bytes_.data(), bytes_.size(), &weight_.buffer, &error),
              TRANSOM_OK);
  }
  ~ImportedWeight() { plugin_.table.buffer_free(weight_.buffer); }
  ImportedWeight(const ImportedWeight&) = delete;
  ImportedWeight& operator=(const ImportedWeight&) = delete;

  // The first output of so many runs of a program of x and the weight.
  std::vector<Tensor> run(Program& program, const Tensor& x, int times) const {
    transom_error error{};
    transom_binding activation{nullptr, 0};
    plugin_.table.buffer_allocate(plugin_.device, x.values.size() * element_size(x.dtype), &activation.buffer, &error);
    encode(x, plugin_.table.buffer_host_pointer(activation.buffer));
    std::vector<Tensor> results;
    for (int i = 0; i < times; ++i) results.push_back(program.run_buffers({activation, weight_})[0]);
    plugin_.table.buffer_free(activation.buffer);
    return results;
  }

 private:
  Plugin& plugin_ = Plugin::cpu();
  std::vector<char> bytes_;
  transom_binding weight_{nullptr, 0};
};

TEST(Products, FrozenWeightsArePackedOnceAndSharedBetweenShapes) {
  Plugin& plugin = Plugin::cpu();
  for (transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16, TRANSOM_FLOAT16}) {
    const int64_t n = 200, k = 96;
    const Tensor w = numbers(dtype, {n, k}, -1, 1, 2);
    const ImportedWeight weight(w);
    for (int64_t m : {1, 12, 64, 12, 100}) {
      const Tensor x = numbers(dtype, {m, k}, -1, 1, static_cast<uint64_t>(m));
      Graph graph;
      const int input = graph.input(x), frozen = graph.input(w, true);
      graph.output(graph.node("linear", {input, frozen}, dtype, {m, n}));
      Program program(plugin, graph);
      ASSERT_TRUE(program.compiled()) << program.error;
      for (const Tensor& y : weight.run(program, x, 2))
        EXPECT_LE(difference(y, linear(x, w, nullptr)), 4 * tolerance(dtype)) << m;
    }
  }
}

// The first use reads the weight as it is, later ones its packed form; both ways round alike.
TEST(Products, AFrozenWeightHasTheSameBitsAtEveryUse) {
  Plugin& plugin = Plugin::cpu();
  for (const transom_dtype dtype : {TRANSOM_FLOAT32, TRANSOM_BFLOAT16})
    for (const bool transposed : {false, true})
      for (const auto& [n, k] :
           {std::pair<int64_t, int64_t>{32, 32}, {64, 32}, {32, 64}, {200, 96}, {130, 3072}, {96, 20}}) {
        const Tensor w = transposed ? numbers(dtype, {k, n}, -1, 1, 2) : numbers(dtype, {n, k}, -1, 1, 2);
        const ImportedWeight weight(w);
        for (const int64_t m : {5, 16, 32, 36, 72, 100, 600}) {
          const bool upright = m != 32;  // else x [K, M], as in the gradient of a weight
          const Tensor x = numbers(dtype, upright ? Shape{m, k} : Shape{k, m}, -1, 1, static_cast<uint64_t>(m));
          const std::vector<Attribute> axes = {{"x_batch", Shape{}},
                                               {"y_batch", Shape{}},
                                               {"x_contract", Shape{upright ? 1 : 0}},
                                               {"y_contract", Shape{transposed ? 0 : 1}},
                                               {"dtype", dtype}};
          const auto run = [&, &n = n](bool frozen) {
            Graph graph;
            const int input = graph.input(x), other = graph.input(w, frozen);
            graph.output(graph.node("dot_general", {input, other}, dtype, {m, n}, axes));
            Program program(plugin, graph);
            EXPECT_TRUE(program.compiled()) << program.error;
            std::vector<std::vector<double>> results;
            for (const Tensor& y : weight.run(program, x, 3)) results.push_back(y.values);
            return results;
          };
          const auto changing = run(false), frozen = run(true);
          double worst = 0;
          for (size_t i = 0; i < frozen[0].size(); ++i)
            worst = std::max(worst, std::abs(frozen[0][i] - changing[0][i]));
          EXPECT_LE(worst, 4 * tolerance(dtype) * static_cast<double>(k)) << dtype << transposed << n << k << m;
          EXPECT_EQ(frozen[0], frozen[1]) << dtype << transposed << " " << n << " " << k << " " << m;
          EXPECT_EQ(frozen[0], frozen[2]) << dtype << transposed << " " << n << " " << k << " " << m;
        }
      }
}

// Steps of decoding in bf16: kept weights times a few rows, each with the bits that it has alone.
TEST(Products, AFewRowsOf16BitsTimesAFrozenWeight) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{200, 96}, {64, 32}, {300, 1030}, {1000, 48}})
    for (const transom_dtype output : {TRANSOM_BFLOAT16, TRANSOM_FLOAT32})
      for (const int64_t m : {1, 2, 5, 6, 7, 8}) {
        const Tensor x = numbers(TRANSOM_BFLOAT16, {m, k}, -1, 1, 1), w = numbers(TRANSOM_BFLOAT16, {n, k}, -1, 1, 2),
                     b = numbers(TRANSOM_BFLOAT16, {n}, -1, 1, 3);
        const bool biased = output == TRANSOM_BFLOAT16;  // dot_general gives f32 too, and takes none
        const auto run = [&, &n = n, &k = k](const Tensor& rows) {
          Graph graph;
          const Shape shape{rows.shape[0], n};
          std::vector<int> inputs{graph.input(rows), graph.input(w, true)};
          std::vector<Tensor> values{rows, w};
          if (biased) inputs.push_back(graph.input(b)), values.push_back(b);
          graph.output(biased ? graph.node("linear", inputs, output, shape)
                              : graph.node("dot_general", inputs, output, shape,
                                           {{"x_batch", Shape{}},
                                            {"y_batch", Shape{}},
                                            {"x_contract", Shape{1}},
                                            {"y_contract", Shape{1}},
                                            {"dtype", output}}));
          Program program(Plugin::cpu(), graph);
          const Tensor first = program.run(values)[0];
          EXPECT_EQ(program.run(values)[0].values, first.values) << m << " " << n << " " << k;
          return first;
        };
        const Tensor y = run(x);
        EXPECT_LE(difference(y, linear(x, w, biased ? &b : nullptr)), biased ? 4 * tolerance(output) : 1e-4)
            << m << " " << n << " " << k;
        for (int64_t i = 0; i < m && m <= 6; ++i) {
          const auto begin = x.values.begin() + i * k;
          const Tensor alone = run(tensor(TRANSOM_BFLOAT16, {1, k}, {begin, begin + k}));
          EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), y.values.begin() + i * n))
              << "row " << i << " of " << m << ", " << n << " x " << k;
        }
      }
}

// No library computes in f16 here: a copy in f32 would take twice the memory of the weight. A row has the same bits at
// every number of rows, so that prompts and single tokens agree.
TEST(Products, AFrozenWeightOf16BitsStaysSoWhereProductsAreOfF32) {
  Plugin& plugin = Plugin::cpu();
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{7, 5}, {200, 96}, {100, 3000}, {70, 9000}})
    for (const int64_t m : {1, 2, 9, 33}) {
      const Tensor x = numbers(TRANSOM_FLOAT16, {m, k}, -1, 1, 1), w = numbers(TRANSOM_FLOAT16, {n, k}, -1, 1, 2),
                   b = numbers(TRANSOM_FLOAT16, {n}, -1, 1, 3);
      Graph graph;
      const int input = graph.input(x), weight = graph.input(w, true), bias = graph.input(b);
      graph.output(graph.node("linear", {input, weight, bias}, TRANSOM_FLOAT16, {m, n}));
      Program program(plugin, graph);
      ASSERT_TRUE(program.compiled()) << program.error;
      EXPECT_NE(program.describe().find("rows apart"), std::string::npos) << program.describe();
      EXPECT_LE(difference(program.run({x, w, b})[0], linear(x, w, &b)), 4 * tolerance(TRANSOM_FLOAT16))
          << n << " " << k;
    }
}

// A weight that is cast before it is used is packed from before the cast; the numbers are those of the cast weight.
TEST(Products, TakesAFrozenWeightFromBeforeItsCast) {
  Plugin& plugin = Plugin::cpu();
  const std::pair<transom_dtype, transom_dtype> casts[] = {{TRANSOM_FLOAT32, TRANSOM_BFLOAT16},
                                                           {TRANSOM_FLOAT32, TRANSOM_FLOAT16},
                                                           {TRANSOM_BFLOAT16, TRANSOM_FLOAT32},
                                                           {TRANSOM_FLOAT16, TRANSOM_BFLOAT16}};
  for (const auto& [stored, dtype] : casts)
    for (int64_t m : {1, 3, 50}) {
      const Tensor w = numbers(stored, {130, 96}, -1, 1, 2), x = numbers(dtype, {m, 96}, -1, 1, 3);
      const auto run = [&, &dtype = dtype](bool frozen) {
        Graph graph;
        const int input = graph.input(x), weight = graph.input(w, frozen);
        const int cast = graph.node("cast", {weight}, dtype, w.shape);
        graph.output(graph.node("linear", {input, cast}, dtype, {m, 130}));
        Program program(plugin, graph);
        EXPECT_TRUE(program.compiled()) << program.error;
        const bool casts = program.describe().find("cast") != std::string::npos;
        EXPECT_EQ(casts, !frozen) << program.describe();
        return program.run({x, w})[0];
      };
      Tensor cast_weight = w;
      cast_weight.dtype = dtype;
      for (double& value : cast_weight.values) value = backend_test::rounded(dtype, value);
      for (const bool frozen : {false, true})
        EXPECT_LE(difference(run(frozen), linear(x, cast_weight, nullptr)), 4 * tolerance(dtype))
            << stored << dtype << m;
    }
}

TEST(Products, ACastThatOthersReadStays) {
  const Tensor w = numbers(TRANSOM_FLOAT32, {8, 16}), x = numbers(TRANSOM_BFLOAT16, {4, 16});
  Graph graph;
  const int input = graph.input(x), weight = graph.input(w, true);
  const int cast = graph.node("cast", {weight}, TRANSOM_BFLOAT16, w.shape);
  graph.output(graph.node("linear", {input, cast}, TRANSOM_BFLOAT16, {4, 8}));
  graph.output(cast);
  Program program(Plugin::cpu(), graph);
  ASSERT_TRUE(program.compiled()) << program.error;
  const std::vector<Tensor> made = program.run({x, w});
  for (size_t i = 0; i < w.values.size(); ++i)
    EXPECT_EQ(made[1].values[i], backend_test::rounded(TRANSOM_BFLOAT16, w.values[i]));
}

TEST(Products, TheSameBitsAtEveryRun) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {150, 200}), w = numbers(TRANSOM_FLOAT32, {300, 200});
  const Tensor first = evaluate("linear", {x, w}, TRANSOM_FLOAT32, {150, 300});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(evaluate("linear", {x, w}, TRANSOM_FLOAT32, {150, 300}).values, first.values);
}

TEST(Products, RefusesWhatDoesNotFit) {
  const Tensor x = numbers(TRANSOM_FLOAT32, {2, 3}), w = numbers(TRANSOM_FLOAT32, {4, 5});
  EXPECT_NE(failure_of("linear", {x, w}, TRANSOM_FLOAT32, {2, 4}), "");
  EXPECT_NE(
      failure_of("dot_general", {x, w}, TRANSOM_FLOAT32, {2, 4},
                 {{"x_batch", Shape{}}, {"y_batch", Shape{}}, {"x_contract", Shape{1}}, {"y_contract", Shape{1}}}),
      "");
}

}  // namespace
}  // namespace transom::backend_test
